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
  /// Baseline `graph`: the same call with inputs copied in and results copied out.
  std::function<void()> call_with_packing = {};
  std::function<void(size_t model)> one = {};  // baseline `loop`: the call of one model
  std::string unavailable;                     // reason, when `call` is empty
};
/// Makes the baselines whose names `wanted` accepts; an empty function accepts all. Finding out
/// whether vmap can run the network costs one call of it.
std::vector<Baseline> baselines(const Network& network, const Ensemble& ensemble, int threads,
                                const std::function<bool(const std::string&)>& wanted = {});

}  // namespace wide
