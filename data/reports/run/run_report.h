#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/reports/run/run.h"

// Summaries and tables of a training run's report.
namespace wide {

/// Statistics of a number over seeds and folds.
struct Spread {
  int64_t n = 0;
  double mean = 0, sd = 0, iqm = 0;  // sd with n - 1; iqm: mean of the middle half
  double low = 0, high = 0;          // 95 %, bootstrapped, of the mean
};
/// nullopt if there are no numbers.
std::optional<Spread> spread_of(std::vector<double> values);
/// "0.52 ± 0.013 [0.51, 0.54], middle half 0.52", or just the number if there is one; "-" for none.
std::string spread_text(const std::optional<Spread>& spread, bool middle_half = true);
/// The same of so many models, with the number of those that have a value where it is another one:
/// "0.52 ± 0.013 [0.51, 0.54], middle half 0.52 (n 2)".
std::string spread_text_of(const std::optional<Spread>& spread, int64_t models,
                           bool middle_half = true);

/// A value if it is finite, else nullopt, from a map such as a model's values of metrics.
std::optional<double> number_at(const std::map<std::string, double>& values,
                                const std::string& key);
/// A hyperparameter, or a label that is a number (a column of --models); nullopt if the model has
/// none of this name.
std::optional<double> setting_of(const ModelReport& model, const std::string& key);
/// A metric's value at a model's best evaluation.
std::optional<double> best_at(const ModelReport& model, const std::string& metric);

/// A metric over the models of one configuration that were not pruned.
struct MetricSummary {
  std::string name;
  std::optional<Spread> validation;  // at each model's best evaluation of the monitored metric
  std::optional<Spread> test;
};

/// The models of one configuration.
struct ConfigSummary {
  std::map<std::string, double> hyperparameters;  // those that differ, or those asked for
  int64_t n = 0, pruned = 0;                      // n: models that were not pruned
  std::vector<MetricSummary> metrics;             // the monitored one first, then by name
  std::map<std::string, int64_t> statuses;

  const MetricSummary& monitored() const { return metrics.front(); }
};

/// Names of the metrics that a run has values of: the monitored one first, then by name.
std::vector<std::string> metric_names(const RunReport& run);

/// Groups models by the named hyperparameters, or by all that differ if none is named; best first.
/// Throws Error for a name that models do not have.
std::vector<ConfigSummary> by_config(const RunReport& run, const std::vector<std::string>& keys);

bool any_pruned(const std::vector<ConfigSummary>& configs);

/// "lr=0.01 weight_decay=0"; "all models" where none differ.
std::string config_name(const ConfigSummary& config);
/// "3 trained, 1 diverged".
std::string statuses_text(const RunReport& run);
/// The number of models in the mean answer.
int64_t answering_models(const RunReport& run);

/// Metrics of the mean answer for the validation and for the test rows.
std::vector<std::pair<std::string, std::map<std::string, double>>> answers_of(
    const MeanAnswer& answer);

/// The report as text with tables, for a terminal.
std::string run_text(const RunReport& run, const std::vector<std::string>& keys);

}  // namespace wide
