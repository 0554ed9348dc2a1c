#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "data/plot/canvas.h"

namespace wide {

enum class CurveEnd { none, stopped, diverged };

/// What one of very many models had along an axis.
struct CurveLine {
  int64_t key = 0;            // identifies the line to the caller
  std::string name;           // "model 7"
  std::vector<Point> points;  // values of both axes, ascending in x
  std::vector<Point> raw;     // before smoothing; empty where nothing is smoothed
  size_t group = 0;
  bool dashed = false;
  CurveEnd end = CurveEnd::none;
};

/// Median and quartiles of the lines of one group at each x, over those that have a value there.
struct CurveGroup {
  std::string name;
  Colour colour;
  bool dashed = false;
  size_t models = 0;
  std::vector<Point> median, low, high;
  std::vector<Point> raw;  // the median before smoothing
};

/// Curves of very many models: all of them faint, what they have in common on top.
struct CurvesFigure {
  std::string title, x_name, y_name;
  bool log_y = false;
  std::vector<CurveLine> lines;
  std::vector<CurveGroup> groups;  // the best one first; those in grey have faint lines alone
  std::string others;              // says how many those are; "": none
  std::vector<size_t> labelled;    // of the lines, the best one first
  double x_end = 1;                // of the axis: also what is planned and not there yet
  size_t shown = 0, total = 0;     // models; total 0: nothing is said of them
};

/// The middle of numbers in ascending order as NumPy's `percentile` has it; `share` 0.5: the
/// median.
double quantile_of(const std::vector<double>& ascending, double share);

struct CurveAxes {
  double x_low = 0, x_high = 1, y_low = 0, y_high = 1;
  bool log_x = false, log_y = false;
  Box plot;  // where they lie, in units

  /// Values to units; NaN for what a logarithmic axis cannot show.
  Point at(const Point& value) const;
  Point value_at(const Point& unit) const;
  bool operator==(const CurveAxes& other) const;
};

/// A piece of the canvas: the plot, and room for labels of ends on its right and the legend below.
struct CurvesLayout {
  Box plot;
  struct Entry {
    Point at;  // the left end of its baseline
    std::string name;
    Colour colour;
    double width = 0, stroke = 3;
  };
  std::vector<Entry> legend;
  double height = 0;
};
CurvesLayout curves_layout(const Canvas& canvas, const CurvesFigure& figure, const Box& room);

/// Axes that show all of the figure but far outliers of a linear axis.
CurveAxes fitted_axes(const CurvesFigure& figure, const Box& plot);

struct CurvesLook {
  bool faint = true;  // false: whoever calls has drawn the faint lines itself
  int64_t lit = -1;   // the key of the line that is drawn in full
};

/// Where something was drawn, in units.
struct DrawnCurveEnd {
  size_t line = 0;
  Point at;
};

/// `room`: how far the line below the axes, which says what they are, may reach.
void draw_curve_axes(Canvas& canvas, const CurvesFigure& figure, const CurveAxes& axes,
                     const Box& room);
/// All that lies over the axes. Returns the ends of lines that are marked or labelled.
std::vector<DrawnCurveEnd> draw_curves(Canvas& canvas, const CurvesFigure& figure,
                                       const CurveAxes& axes, const CurvesLayout& layout,
                                       const CurvesLook& look);
/// How strong one of so many faint lines is.
double faint_opacity(size_t lines);

/// All of it as one SVG document, or as an element of a page.
std::string curves_document(const CurvesFigure& figure, const std::string& footer);
std::string curves_element(const CurvesFigure& figure);

}  // namespace wide
