#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/plot/canvas.h"
#include "data/plot/scale.h"

namespace wide {

/// What a plot shows of each trial along N, beside its error.
enum class Measure { speedup, time, throughput, memory, roofline, compile };

/// One trial in a plot.
struct CurvePoint {
  double n = 1;
  // Of a speedup with its 95 % interval, of a time with its quartiles; none: not to be shown.
  std::optional<double> value, low, high;
  bool incorrect = false;       // drawn as a cross
  std::optional<double> error;  // max relative error; not finite: beyond every scale
  std::string about;            // in words, for who points at it
};

/// One strategy in one mode, ascending in n.
struct Curve {
  std::string name;
  std::string strategy;  // or "loop" of a baseline
  std::string group;     // its mode: what small multiples are made by
  std::vector<CurvePoint> points;
  std::optional<int64_t> crossover;
  int style = 0;  // which colour, shape and dash
  bool chosen = false;
};

/// Figures somebody else published, set beside ours.
struct PublishedLine {
  std::string name;
  std::vector<Point> points;  // x: N, y: speedup
};

/// What the error of a trial at `n` may be, and the separate models' own.
struct Allowance {
  double n = 1, allowed = 0, separate = 0;
};

/// One plot: speedup versus N, and the error of the same trials beside it.
struct Figure {
  std::string title, subtitle;
  std::string over = "the best baseline";  // what the speedup is over
  Measure measure = Measure::speedup;
  std::vector<Curve> curves;
  std::vector<Allowance> allowances;  // ascending in n
  std::optional<PublishedLine> published;
  std::vector<std::string> notes;  // what could not be drawn: unsupported, crashed, ...
};

/// More curves than this in one plot cannot be told apart: `split` such figures.
inline constexpr size_t kMostCurves = 12;

/// The figure in parts of at most a dozen curves, those of one mode together; all on the same axes.
std::vector<Figure> split(const Figure& figure);

/// What the axes show; parts of one figure share it.
struct Limits {
  std::vector<double> ns;  // measured, ascending
  double n_low = 1, n_high = 2, low = 0.5, high = 2, error_low = 1e-8, error_high = 1;
  bool exact = false;      // some error is 0, which is drawn at the lower end
  bool incorrect = false;  // there are crosses
};
Limits limits_of(const Figure& figure);

/// Where the plots lie, and what their axes are: values on the left, errors on the right.
struct FigureGeometry {
  double x = 0, top = 0, width = 0;
  double lane = 0;  // of crosses, below both plots
  Box value, legend, error;
  LogScale value_y, error_y, value_n, error_n;
  bool legend_below = false;  // else between the plots
};
inline constexpr double kPlotHeight = 232;

/// `plot_height` is that of both plots' inside.
FigureGeometry geometry_of(const Limits& limits, double x, double y, double width,
                           double plot_height = kPlotHeight, bool legend_below = false);

/// What who looks at it has chosen to see.
struct FigureView {
  std::set<std::string> hidden;  // names of curves
  std::string lit;               // the others step back
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

/// "12.3 µs", "4.56 GB", "3.2×": a value as the axis of its measure has it.
std::string value_text(Measure measure, double value);
/// "speedup over the best baseline", "time of a call of all N".
std::string measure_title(const Figure& figure);

/// `text` in lines not wider than `width`.
std::vector<std::string> wrap(const Canvas& canvas, const std::string& text, const TextStyle& style,
                              double width);
/// `text`, or its beginning and an ellipsis.
std::string shorten(const Canvas& canvas, const std::string& text, const TextStyle& style,
                    double width);

}  // namespace wide
