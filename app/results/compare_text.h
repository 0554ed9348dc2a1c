#pragma once
#include <string>

#include "data/reports/sweep/compare/compare.h"

namespace wide {

/// "5 trials in both: 4 SAME, 1 SLOWER; between runs ratios scatter by 2.5 %".
std::string verdicts_text(const Comparison& comparison);

/// At most `shown` changed trials, worst first; unchanged trials are only counted.
std::string comparison_text(const Comparison& comparison, size_t shown = 20);

}  // namespace wide
