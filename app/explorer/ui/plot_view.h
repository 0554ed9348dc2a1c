#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "app/explorer/ui/draw_canvas.h"
#include "data/plot/figure_draw.h"

namespace wide {

/// A point of a curve.
struct PickedPoint {
  std::string strategy, mode;
  int64_t place = 0;  // value on the plot's axis: N by default
  bool operator==(const PickedPoint&) const = default;
};

/// An interactive figure: wheel and drag zoom and pan, a right drag zooms to a box, a double click
/// shows all; a click on the legend hides a curve, a double click shows it alone.
class PlotView {
 public:
  /// Fills what is left of the current region. Returns the point that was clicked. `about` draws
  /// more of the point under the mouse, inside its tooltip.
  std::optional<PickedPoint> draw(Ui& ui, const Figure& figure,
                                  const std::optional<PickedPoint>& selected,
                                  const std::function<void(const PickedPoint&)>& about = {});
  void fit() { zoom_.reset(); }
  bool zoomed() const { return zoom_.has_value(); }
  void show_all() { hidden_.clear(); }
  const std::set<std::string>& hidden() const { return hidden_; }
  /// The visible limits, for a picture.
  const Limits& limits() const { return limits_; }
  /// The plot's box in pixels of the window.
  const Box& box() const { return box_; }

 private:
  /// Notes the points, rings the selected one, and returns the one under the mouse or null.
  const DrawnMark* marks(Ui& ui, const DrawCanvas& canvas, const DrawnFigure& drawn,
                         const std::string& axis, const std::optional<PickedPoint>& selected);
  void legend_input(const DrawCanvas& canvas, const Figure& part, const DrawnFigure& drawn);
  void axes_input(const DrawCanvas& canvas, const FigureGeometry& g);
  void cursor(Ui& ui, const DrawCanvas& canvas, const FigureGeometry& g);

  std::string of_;  // which figure the zoom belongs to
  std::optional<Limits> zoom_;
  Limits limits_;
  std::set<std::string> hidden_;
  std::string lit_, next_lit_;
  std::optional<ImVec2> box_from_;
  double cursor_n_ = 0, next_cursor_n_ = 0;
  bool panning_ = false;
  Box box_;
};

}  // namespace wide
