#pragma once
#include <string>

#include "data/reports/compare.h"

namespace wide {

/// What changed, worst first; unchanged trials are counted only. `shown` rows at most.
std::string comparison_text(const Comparison& comparison, size_t shown = 20);

}  // namespace wide
