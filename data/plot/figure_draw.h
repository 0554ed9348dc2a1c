#pragma once
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/plot/figure_geometry.h"

namespace wide {

/// What the viewer has chosen to see.
struct FigureView {
  std::set<std::string> hidden;  // names of curves
  std::string lit;               // highlighted curve; others are faint
  std::string selected;          // curve whose intervals show as a band, if none is highlighted
  bool notes = true;
};

/// A point, or the cross of one that is incorrect, where it was drawn: in the plot of values, in
/// that of errors, or in the strip of crosses below.
struct DrawnMark {
  enum class Side { value, error, lane };
  const Curve* curve = nullptr;  // of the figure that was drawn
  const CurvePoint* point = nullptr;
  Point at;
  Side side = Side::value;
};

struct DrawnFigure {
  double height = 0;
  std::vector<std::pair<std::string, Box>> legend;  // by the curve's name
  std::vector<DrawnMark> marks;
};

/// Draws at the geometry's position. Points outside the axes are left out.
DrawnFigure draw(Canvas& canvas, const Figure& figure, const Limits& limits,
                 const FigureGeometry& geometry, const FigureView& view = {});
/// Draws with the upper left corner at `x`, `y`, this wide; returns the height.
double draw(Canvas& canvas, const Figure& figure, const Limits& limits, double x, double y,
            double width);

}  // namespace wide
