#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

// What a training run's report (its JSON document) says, taken together and as tables.
namespace wide {

/// Of numbers over seeds and folds.
struct Spread {
  int64_t n = 0;
  double mean = 0, sd = 0, iqm = 0;  // sd with n - 1; iqm: mean of the middle half
  double low = 0, high = 0;          // 95 %, bootstrapped, of the mean
};
/// nullopt for no number.
std::optional<Spread> spread_of(std::vector<double> values);

/// A metric over the models of one configuration that were not pruned.
struct MetricSummary {
  std::string name;
  std::optional<Spread> validation;  // at each model's best evaluation of the monitored metric
  std::optional<Spread> test;
};

/// The models of one configuration.
struct ConfigSummary {
  std::map<std::string, double> hyperparameters;  // those that differ, or those asked for
  int64_t n = 0, pruned = 0;                      // n: the others
  std::vector<MetricSummary> metrics;             // the monitored one first, then by name
  std::map<std::string, int64_t> statuses;

  const MetricSummary& monitored() const { return metrics.front(); }
};

/// Names of the metrics that a run has values of: the monitored one first, then by name.
std::vector<std::string> metric_names(const nlohmann::ordered_json& run);

/// By the hyperparameters named, or where none is by all that differ; best first. Throws Error for
/// a name that models do not have.
std::vector<ConfigSummary> by_config(const nlohmann::ordered_json& run,
                                     const std::vector<std::string>& keys);
nlohmann::ordered_json to_json(const ConfigSummary& summary);

/// How models of two runs find their partners: of the same configuration, seeds and fold; or, where
/// no two are, of the same seeds and fold, which says what another configuration is worth.
enum class Pairing { configuration, seeds };

/// A model of one run beside its partner in the other.
struct RunComparison {
  Pairing pairing = Pairing::configuration;  // how they were found
  std::string metric;
  bool more_is_better = true;
  int64_t pairs = 0, alone = 0;  // the latter: models of either without a partner
  double before = 0, after = 0;  // means over the pairs
  std::optional<Spread> change;  // after - before
  std::string verdict;           // BETTER, WORSE, SAME: the interval lies on one side of 0
  /// WORSE, and in the mean by more than this percentage of what it was.
  bool worse_by(double percent) const;
};
/// `least`: what partners share at least. Throws Error where the runs monitor different metrics or
/// no model has a partner.
RunComparison compare_runs(const nlohmann::ordered_json& before,
                           const nlohmann::ordered_json& after,
                           Pairing least = Pairing::configuration);
/// The errors of `compare_runs` before there is a result.
void check_comparable(const nlohmann::ordered_json& before, const nlohmann::ordered_json& after);
/// One line of an error: what got worse, and by how much.
std::string worse_line(const RunComparison& comparison, double percent);
nlohmann::ordered_json to_json(const RunComparison& comparison);
std::string comparison_text(const RunComparison& comparison);

/// In words and tables for a terminal.
std::string run_text(const nlohmann::ordered_json& run, const std::vector<std::string>& keys);

/// Throws Error for a document that is no run's.
void check_run(const nlohmann::ordered_json& run, const std::string& file);

}  // namespace wide
