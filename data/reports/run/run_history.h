#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/reports/run/run.h"

// The metrics of a training run's models at each evaluation, as curves for plots.
namespace wide {

/// One metric of one model: the steps at which it was evaluated, ascending, and the values.
struct RunCurve {
  std::vector<int64_t> steps;
  std::vector<double> values;
};

struct RunHistory {
  int64_t id = 0;                                  // in the store; 0: read from a file
  std::string name, network, state, command, dir;  // state: running, complete, interrupted
  std::string monitor;                             // the metric by which models are compared
  bool more_is_better = false;
  int64_t steps = 0;  // of the whole run
  double steps_per_epoch = 1;
  std::vector<ModelReport> models;
  std::map<std::string, std::vector<RunCurve>> metrics;  // by name, then by model
  std::map<int64_t, double> seconds;                     // by step, of training; may be empty

  /// The curves of a metric, indexed by model; nullptr if the run does not have it.
  const std::vector<RunCurve>* metric(const std::string& metric_name) const;
  /// The last step of any model.
  int64_t last_step() const;
  void add(const std::string& metric_name, int64_t model, int64_t step, double value);
};

/// Names of hyperparameters that are not the same for all models, sorted.
std::vector<std::string> differing_hyperparameters(const RunHistory& run);

/// Converts a run's report, leaving out its history.
RunHistory run_head(const RunReport& report);
/// Converts a run's report with its history.
RunHistory run_history(const RunReport& report);

/// The monitored metric, or `train_loss` if the run has no values of it.
std::string compared_metric(const RunHistory& run);
/// Whether larger values of `compared_metric` are better.
bool larger_is_better(const RunHistory& run);

/// A model's best value of a metric, its largest if `larger`, else its smallest; nullopt for a
/// model without a finite value, and for all models of a run that lacks the metric.
struct BestValue {
  double value = 0;
  int64_t step = 0;
};
std::optional<BestValue> best_value(const RunHistory& run, size_t model, const std::string& metric,
                                    bool larger);

}  // namespace wide
