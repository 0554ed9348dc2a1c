#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/network.h"

namespace wide {

/// A way to run N separate models: `loop`, `threads` (CPU), `vmap`, `streams` or `graph` (CUDA).
/// One that cannot run this network has no `call`, and a reason in `unavailable`.
struct Baseline {
  std::string name;
  /// For the check: runs fresh models once and returns their outputs, stacked to `[N, ...]`.
  std::function<Tensors()> run;
  /// What is timed: runs all N on the ensemble's inputs, as users write it. The first call makes
  /// the models; the outputs of the last call are kept by model.
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
