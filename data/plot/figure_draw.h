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
  std::string lit;               // the others step back
  std::string selected;          // has its band where none is lit; "": the chosen one
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

/// Draws at the top left that the geometry says. Points outside of the axes are left out.
DrawnFigure draw(Canvas& canvas, const Figure& figure, const Limits& limits,
                 const FigureGeometry& geometry, const FigureView& view = {});
/// The same at `x`, `y`, `width` wide; returns the height taken.
double draw(Canvas& canvas, const Figure& figure, const Limits& limits, double x, double y,
            double width);

}  // namespace wide
