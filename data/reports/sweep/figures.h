#pragma once
#include <vector>

#include "data/plot/figure.h"
#include "data/reports/sweep/report.h"

namespace wide {

struct FigureOptions {
  bool over_loop = false;  // instead of over the best baseline
  Measure measure = Measure::speedup;
  bool published = false;  // with what others published as a dashed reference
  std::string axis;        // of the shapes, that values stand along; "": the number of models
};

/// One figure for cases that differ in N (or the axis), mode and strategy only, in the report's
/// order. The crossover is always against the best baseline, and along N.
std::vector<Figure> figures_of(const std::vector<Case>& cases, const FigureOptions& options);

}  // namespace wide
