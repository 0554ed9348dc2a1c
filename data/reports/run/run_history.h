#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/reports/run/run.h"

// What the models of a training run had at each evaluation, as numbers by model.
namespace wide {

/// One metric of one model: its value at each step it has one of, ascending.
struct RunCurve {
  std::vector<int64_t> steps;
  std::vector<double> values;
};

struct RunHistory {
  int64_t id = 0;                                  // in the store; 0: of a file
  std::string name, network, state, command, dir;  // state: running, complete, interrupted
  std::string monitor;                             // the metric by which models are compared
  bool more_is_better = false;
  int64_t steps = 0;  // planned
  double steps_per_epoch = 1;
  std::vector<ModelReport> models;
  std::map<std::string, std::vector<RunCurve>> metrics;  // by name, then by model
  std::map<int64_t, double> seconds;                     // by step, of training; may be empty

  /// Of the models' own number; nullptr for a metric that the run does not have.
  const std::vector<RunCurve>* metric(const std::string& metric_name) const;
  /// The last step of any model.
  int64_t last_step() const;
  void add(const std::string& metric_name, int64_t model, int64_t step, double value);
};

/// Names of hyperparameters that are not the same for all models, in the order of the alphabet.
std::vector<std::string> differing_hyperparameters(const RunHistory& run);

/// Of a run's report without its history.
RunHistory run_head(const RunReport& report);
/// The same with its history.
RunHistory run_history(const RunReport& report);

/// What a model did best, of the values of the monitored metric (`train_loss` of a run without
/// one); nullopt for a model without a finite value.
struct BestValue {
  double value = 0;
  int64_t step = 0;
};
std::optional<BestValue> best_value(const RunHistory& run, size_t model);
/// The monitored metric, or `train_loss` where the run has no values of it.
std::string compared_metric(const RunHistory& run);

}  // namespace wide
