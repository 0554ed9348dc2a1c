#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/plot/canvas.h"

namespace wide {

enum class CurveEnd { none, stopped, diverged };

/// The curve of one of very many models.
struct CurveLine {
  int64_t key = 0;            // identifies the line to the caller
  std::string name;           // "model 7"
  std::vector<Point> points;  // values of both axes, ascending in x
  std::vector<Point> raw;     // before smoothing; empty where nothing is smoothed
  size_t group = 0;
  bool dashed = false;
  CurveEnd end = CurveEnd::none;
};

/// Median and quartiles of the curves of one group at each x, over those with a value there.
struct CurveGroup {
  std::string name;
  Colour colour;
  bool dashed = false;
  size_t models = 0;
  std::vector<Point> median, low, high;
  std::vector<Point> raw;  // the median before smoothing
};

/// A plot of very many models' curves: all of them faint, medians and quartiles on top.
struct CurvesFigure {
  std::string title, x_name, y_name;
  bool log_y = false;
  std::vector<CurveLine> lines;
  std::vector<CurveGroup> groups;  // best first; the worst are grey, if colours do not suffice
  std::string others;              // text about the number of grey groups; "" if there are none
  std::vector<size_t> labelled;    // indices of labelled lines, best first
  double x_end = 1;                // end of the axis, steps to come included
  size_t shown = 0, total = 0;     // numbers of models; total 0: unknown
};

/// The quantile `share` of sorted numbers, as NumPy's `percentile` interpolates it; 0.5: the
/// median.
double quantile_of(const std::vector<double>& ascending, double share);

struct CurveAxes {
  double x_low = 0, x_high = 1, y_low = 0, y_high = 1;
  bool log_x = false, log_y = false;
  Box plot;  // the plot's area in pixels

  /// Values to pixels; NaN for values that a logarithmic axis cannot show.
  Point at(const Point& value) const;
  /// Pixels to values.
  Point value_at(const Point& unit) const;
  bool operator==(const CurveAxes&) const = default;
};

/// A piece of the canvas: the plot, and room for labels on its right and the legend below.
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

/// Axes that show the whole figure, except far outliers on a linear axis.
CurveAxes fitted_axes(const CurvesFigure& figure, const Box& plot);

struct CurvesLook {
  bool faint = true;  // false: the caller draws the faint lines itself
  int64_t lit = -1;   // key of the highlighted line; -1: none
};

/// Where the end of a line was drawn, in pixels.
struct DrawnCurveEnd {
  size_t line = 0;
  Point at;
};

/// `room`: bounds of the axes' names below the plot.
void draw_curve_axes(Canvas& canvas, const CurvesFigure& figure, const CurveAxes& axes,
                     const Box& room);
/// Draws everything inside the axes. Returns the ends of lines that are marked or labelled.
std::vector<DrawnCurveEnd> draw_curves(Canvas& canvas, const CurvesFigure& figure,
                                       const CurveAxes& axes, const CurvesLayout& layout,
                                       const CurvesLook& look);
/// Opacity of a faint line among so many.
double faint_opacity(size_t lines);

/// The whole plot as an SVG document, or as an element of an HTML page.
std::string curves_document(const CurvesFigure& figure, const std::string& footer);
std::string curves_element(const CurvesFigure& figure);

}  // namespace wide
