#pragma once
#include <vector>

#include "data/plot/figure.h"
#include "data/reports/report.h"

namespace wide {

struct FigureOptions {
  bool over_loop = false;  // instead of over the best baseline
  Measure measure = Measure::speedup;
  bool published = false;  // with what others published as a dashed reference
};

/// One figure for cases that differ in N, mode and strategy only, in the report's order. The
/// crossover is always against the best baseline.
std::vector<Figure> figures_of(const std::vector<Case>& cases, const FigureOptions& options);

}  // namespace wide
