#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/network.h"

namespace wide {

/// Baselines for N separate models: `loop`, `threads` (CPU), `vmap`, `streams` and `graph` (CUDA).
/// Each returns a call that runs all N on the ensemble's inputs with their own weights.
/// A baseline that cannot run this network has no call and a reason.
struct Baseline {
  std::string name;
  std::function<Tensors()> run;  // outputs of all models, stacked; for the check
  /// What is timed: as users write it, outputs kept per model. The first call makes the models.
  std::function<void()> call;
  std::function<void(size_t model)> one = {};  // of the loop: a model's part of that call
  std::string unavailable;                     // reason, when `call` is empty
};
/// `wanted`: those that are made, by name; the others are left out. Empty: all. Finding out whether
/// vmap can run a network costs a call of it.
std::vector<Baseline> baselines(const Network& network, const Ensemble& ensemble, int threads,
                                const std::function<bool(const std::string&)>& wanted = {});

}  // namespace wide
