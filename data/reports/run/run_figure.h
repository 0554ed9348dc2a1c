#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/plot/curves.h"
#include "data/reports/run/run_history.h"

namespace wide {

/// What the figure of one or several runs shows.
struct RunFigureOptions {
  std::string metric;          // "": the monitored metric; `loss` shows the training loss too
  std::string along = "step";  // or epoch, seconds
  bool log_y = false;
  bool training = true;         // the training loss beside the validation loss
  double smoothing = 0;         // in [0, 1): the weight of earlier values in the moving average
  std::vector<std::string> by;  // hyperparameters that form groups; empty: all that differ
  // By run, then model: whether it is shown. All models of a run without an entry are shown.
  std::vector<std::vector<bool>> shown;

  bool operator==(const RunFigureOptions&) const = default;
};

using Runs = std::vector<std::shared_ptr<const RunHistory>>;

/// The key of a line of the figure: which run and which model.
inline constexpr int64_t kRunKey = int64_t{1} << 32;
inline int64_t curve_key(size_t run, size_t model) {
  return static_cast<int64_t>(run) * kRunKey + static_cast<int64_t>(model);
}

CurvesFigure run_figure(const Runs& runs, const RunFigureOptions& options);
/// The figure of one run in reports, for one metric ("": the monitored one). Its axis is
/// logarithmic if the values span orders of magnitude.
CurvesFigure report_figure(const std::shared_ptr<const RunHistory>& run, const std::string& metric,
                           const std::vector<std::string>& by);

/// Names of the metrics of all runs: the first run's monitored metric, then the others by name.
std::vector<std::string> figure_metrics(const Runs& runs);

/// "lr=0.1 momentum=0.9"; "all models" without keys.
std::string group_name(const ModelReport& model, const std::vector<std::string>& keys);

/// Exponential moving average with bias correction for the first values, as in TensorBoard.
std::vector<Point> smoothed(const std::vector<Point>& points, double smoothing);

}  // namespace wide
