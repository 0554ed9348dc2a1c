#pragma once
#include <string>

#include "app/python/bindings/core.h"

namespace nwide {

/// The contest of the program compiled last: `loop`, `threads` and `vmap` of the separate modules
/// beside the wide program, checked before and after timing. Returns a case in the reports' JSON.
/// `baselines` are further ones by name, made in Python: functorch's vmap, torch.compile if wanted.
/// Each is called with all tensors (inputs, then weights) and which of them are shared, and returns
/// a function that returns the outputs, `[N, ...]` where its argument is true. (The engine's own
/// vmap cannot replace the tensors of a Python module.) `progress` is called with texts.
std::string benchmark(Core& core, double budget_s, uint64_t seed,
                      const std::vector<std::pair<std::string, py::object>>& baselines,
                      const py::object& progress);

}  // namespace nwide
