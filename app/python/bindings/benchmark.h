#pragma once
#include <string>

#include "app/python/bindings/core.h"

namespace nwide {

/// The contest of the program compiled last: `loop`, `threads` and `vmap` of the separate modules
/// beside the wide program, checked before and after timing. A case as reports hold it, in JSON.
/// `batched` is functorch's vmap as Python has it: from all tensors (inputs, then weights) and
/// which of them all models share, a function of no arguments that gives the outputs `[N, ...]`.
/// The engine's own knows no tensors that stand in for a Python module's. `progress` is told in
/// words what the contest is at.
std::string benchmark(Core& core, double budget_s, uint64_t seed, const py::object& batched,
                      const py::object& progress);

}  // namespace nwide
