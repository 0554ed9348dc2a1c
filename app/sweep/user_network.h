#pragma once
#include <nlohmann/json.hpp>

#include "data/preset.h"
#include "engine/widen/target.h"

// Users' own networks as targets of a sweep. Their files are opened only in the worker that runs
// their cases.
namespace wide {

/// The target of a network, named after its file: "net.pt2". Equal networks have one target.
const Target& user_target(const PresetNetwork& network);

/// The network that a target was made of; null for a registered target.
const PresetNetwork* user_network(const Target& target);

/// A registered target, or the target of a user's network that was made last under this name.
/// Throws Error for other names.
const Target& find_sweep_target(const std::string& name);

/// A network as JSON, for workers and the store, and back.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PresetNetwork, file, weights, inputs)

}  // namespace wide
