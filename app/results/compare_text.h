#pragma once
#include <string>

#include "data/reports/sweep/compare/compare.h"

namespace wide {

/// "5 trials in both: 4 SAME, 1 SLOWER; between runs ratios scatter by 2.5 %".
std::string verdicts_text(const Comparison& comparison);

/// "conv2d/grouped B8 C64 backward: faster from N=8, was never".
std::string crossover_text(const CrossoverChange& change);

/// At most `shown` changed trials, worst first; unchanged trials are only counted.
std::string comparison_text(const Comparison& comparison, size_t shown = 20);

}  // namespace wide
