#pragma once
#include <string>

#include "app/python/bindings/core.h"

namespace nwide {

/// The contest of the program compiled last: `loop`, `threads` and `vmap` of the separate modules
/// beside the wide program, checked before and after timing. A case as reports hold it, in JSON.
/// `baselines` are what Python has beside them, by name: functorch's vmap, and torch.compile where
/// asked for. Each makes, from all tensors (inputs, then weights) and which of them all models
/// share, a function that gives the outputs, `[N, ...]` where its argument is true. The engine's
/// own vmap knows no tensors that stand in for a Python module's. `progress` is told in words what
/// the contest is at.
std::string benchmark(Core& core, double budget_s, uint64_t seed,
                      const std::vector<std::pair<std::string, py::object>>& baselines,
                      const py::object& progress);

}  // namespace nwide
