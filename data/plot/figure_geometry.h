#pragma once
#include "data/plot/figure.h"
#include "data/plot/scale.h"

namespace wide {

/// Positions and axes of the two plots: values on the left, errors on the right.
struct FigureGeometry {
  double x = 0, top = 0, width = 0;
  double lane = 0;  // height of the strip below both plots for crosses of incorrect trials; 0: none
  Box value, legend, error;
  LogScale value_y, error_y, value_n, error_n;  // y and x axes of both plots
  bool legend_below = false;                    // else between the plots
};
inline constexpr double kPlotHeight = 232;

/// `plot_height` is the inner height of both plots.
FigureGeometry geometry_of(const Limits& limits, double x, double y, double width,
                           double plot_height = kPlotHeight, bool legend_below = false);

}  // namespace wide
