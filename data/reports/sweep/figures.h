#pragma once
#include <vector>

#include "data/plot/figure.h"
#include "data/reports/sweep/report.h"

namespace wide {

struct FigureOptions {
  bool over_loop = false;  // instead of over the best baseline
  Measure measure = Measure::speedup;
  bool published = false;  // with published figures as dashed curves
  std::string axis;        // the shape's axis to plot along; "": the number of models
};

/// Figures of the report in its order, one for all cases that differ only in N (or the axis), mode
/// and strategy. Crossovers are always along N, against the best baseline.
std::vector<Figure> figures_of(const std::vector<Case>& cases, const FigureOptions& options);

}  // namespace wide
