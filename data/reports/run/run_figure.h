#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/plot/curves.h"
#include "data/reports/run/run_history.h"

namespace wide {

/// What the figure of one or several runs shows.
struct RunFigureOptions {
  std::string metric;          // "": what models are compared by; `loss` has the training loss too
  std::string along = "step";  // or epoch, seconds
  bool log_y = false;
  bool training = true;         // the training loss beside the validation loss
  double smoothing = 0;         // 0 to below 1: the share of the values before
  std::vector<std::string> by;  // hyperparameters of a group; none: all that differ
  // By run, then model: whether it is shown. A run without an entry has all of its models.
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
/// As reports show a run: of one metric ("": what models are compared by), logarithmic where its
/// values are of many sizes.
CurvesFigure report_figure(const std::shared_ptr<const RunHistory>& run, const std::string& metric,
                           const std::vector<std::string>& by);

/// Names of the metrics of all the runs: what the first one is compared by, then by name.
std::vector<std::string> figure_metrics(const Runs& runs);

/// "lr=0.1 momentum=0.9"; "all models" without keys.
std::string group_name(const ModelReport& model, const std::vector<std::string>& keys);

/// Exponential means with the weights of the values before taken out of the first ones: as
/// TensorBoard smooths.
std::vector<Point> smoothed(const std::vector<Point>& points, double smoothing);

}  // namespace wide
