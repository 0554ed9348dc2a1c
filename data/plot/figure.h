#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/plot/canvas.h"
#include "data/plot/measure.h"

namespace wide {

/// One trial or baseline in a plot.
struct CurvePoint {
  double n = 1;
  /// low, high: the 95 % interval of a speedup, the quartiles of a time. Without a value nothing is
  /// drawn.
  std::optional<double> value, low, high;
  bool incorrect = false;       // drawn as a cross
  bool chosen = false;          // the engine's choice at this n
  std::optional<double> error;  // max relative error; may be infinite or NaN
  std::string about;            // text of the tooltip
};

/// One strategy in one mode, ascending in n.
struct Curve {
  std::string name;
  std::string strategy;  // or "loop" of a baseline
  std::string group;     // its mode; a plot is made for each group
  std::vector<CurvePoint> points;
  std::optional<int64_t> crossover;
  int style = 0;        // which colour, shape and dash
  bool chosen = false;  // at some n
};

/// Published speedups of others, for comparison.
struct PublishedLine {
  std::string name;
  std::vector<Point> points;  // x: N, y: speedup
  /// Whether it was measured on a similar device: then the axes include it. Else values beyond the
  /// axes are stated as text at the edge.
  bool comparable = false;
};

/// The tolerance of a trial's error at `n`, and the error of separate models.
struct Allowance {
  double n = 1, allowed = 0, separate = 0;
};

/// One plot: speedup versus N, and the error of the same trials beside it.
struct Figure {
  std::string title, subtitle;
  std::string over = "the best baseline";  // what the speedup is over
  std::string axis;                        // name of `n` if it is not the number of models
  std::vector<std::string> places;         // names at n = 1, 2, 4, 8 ... if places are no numbers
  bool errors = true;                      // false: not measured, so there is no plot of them
  Measure measure = Measure::speedup;
  std::vector<Curve> curves;
  std::vector<Allowance> allowances;  // ascending in n
  std::optional<PublishedLine> published;
  std::vector<std::string> notes;  // sentences: what is not drawn or not reliable, and why
};

/// The most curves in one plot that can be distinguished; `split` figures with more.
inline constexpr size_t kMostCurves = 12;

/// Splits a figure into parts of at most a dozen curves with the same axes, keeping curves of one
/// mode together.
std::vector<Figure> split(const Figure& figure);

/// What the axes show; parts of one figure share it.
struct Limits {
  std::vector<double> ns;  // measured, ascending
  double n_low = 1, n_high = 2, low = 0.5, high = 2, error_low = 1e-8, error_high = 1;
  bool exact = false;      // some error is 0, which is drawn at the lower end
  bool incorrect = false;  // some points are crosses
  bool errors = true;      // there is a plot of errors
};
Limits limits_of(const Figure& figure);

}  // namespace wide
