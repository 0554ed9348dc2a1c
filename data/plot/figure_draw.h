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
  std::string selected;          // has its band if none is highlighted; "": the chosen one
  bool notes = true;
};

/// A point, or the cross of one that is incorrect, where it was drawn.
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
/// Draws at `x`, `y` with a width; returns the height.
double draw(Canvas& canvas, const Figure& figure, const Limits& limits, double x, double y,
            double width);

}  // namespace wide
