#pragma once
#include <nlohmann/json_fwd.hpp>

#include "data/preset.h"
#include "engine/widen/target.h"

// Networks of the user's own as targets of a sweep. Nothing of them is opened before a worker runs
// their cases.
namespace wide {

/// The target of a network, named after its file: "net.pt2". The same network gives the same one.
const Target& user_target(const PresetNetwork& network);

/// The network that a target was made of; null: it is a registered one.
const PresetNetwork* user_network(const Target& target);

/// A registered target, or the one made last of a user's network. Throws Error for other names.
const Target& find_sweep_target(const std::string& name);

/// As a worker and the store are told of them. The latter throws nlohmann's exception for anything
/// else.
nlohmann::json networks_json(const std::vector<PresetNetwork>& networks);
std::vector<PresetNetwork> networks_of(const nlohmann::json& json);

}  // namespace wide
