#pragma once
#include <optional>
#include <string>

#include "app/sweep/run.h"

namespace wide {

inline constexpr const char* kPeer = "torch.compile";

/// What came of asking another Python.
struct PeerResult {
  std::optional<Timing> timing;  // a baseline of the name `kPeer`
  std::string absent;            // why there is none
};

/// Times a case of a suite's target through torch.compile: `settings.peer` is started with the same
/// inputs and weights, one model after the other, and what it computes is held against `expected`,
/// the separate models' own results `[N, ...]`. Its absence is an answer, not an error.
PeerResult ask_peer(const PlannedCase& planned, const SweepSettings& settings,
                    const Network& network, const Ensemble& ensemble, const Tensors& expected);

/// The targets that it knows.
bool peer_knows(const std::string& target);

}  // namespace wide
