#pragma once
#include <string>

#include "app/python/bindings/core.h"

namespace nwide {

/// The contest of the program compiled last: `loop`, `threads` and `vmap` of the separate modules
/// beside the wide program, checked before and after timing. A case as reports hold it, in JSON.
std::string benchmark(Core& core, double budget_s, uint64_t seed);

}  // namespace nwide
