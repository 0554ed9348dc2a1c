#pragma once
#include <functional>
#include <optional>
#include <string>

#include "app/sweep/run.h"

namespace wide {

inline constexpr const char* kPeer = "torch.compile";              // of one model, called N times
inline constexpr const char* kBatchedPeer = "torch.compile vmap";  // of vmap over all models

/// What came of asking another Python.
struct PeerResult {
  std::vector<Timing> timings;      // baselines of these names
  std::vector<std::string> absent;  // why there is none
};

/// What a phase of a case computes.
struct PeerCase {
  const PlannedCase& planned;
  const Network& network;
  const Program& single;  // Program(1) of it
  const Ensemble& ensemble;
  const Tensors& expected;  // of the separate models `[N, ...]`, in the order of its results
};

/// Times a case through torch.compile: `settings.peer` is started with the network as torch.export
/// loads it, with the same inputs and weights, and what it computes is held against `expected`. Its
/// absence is an answer, not an error. `alive` is called every few seconds while it works.
PeerResult ask_peer(const PeerCase& of, const SweepSettings& settings,
                    const std::function<void()>& alive);

/// Why `python` cannot compile anything with torch.compile, or "". Takes some seconds.
std::string peer_lacks(const std::string& python);

}  // namespace wide
