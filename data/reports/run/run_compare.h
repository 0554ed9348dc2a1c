#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/reports/run/run_report.h"

// Two training runs beside each other, model by model.
namespace wide {

/// How models of two runs find their partners: of the same configuration, seeds and fold; or, where
/// no two are, of the same seeds and fold, which says what another configuration is worth.
enum class Pairing { configuration, seeds };

/// Something that is not the same in two runs, in words.
struct RunDifference {
  std::string what, before, after;
  /// False of what a run may change when it goes on (its length) and of what changes no value.
  bool other_configuration = true;
};

/// A model of one run beside its partner in the other.
struct RunComparison {
  Pairing pairing = Pairing::configuration;  // how they were found
  std::string metric;
  bool more_is_better = true;
  int64_t pairs = 0, alone = 0;  // the latter: models of either without a partner
  int64_t pruned = 0;            // of both runs; these have no pairs
  double before = 0, after = 0;  // means over the pairs
  std::optional<Spread> change;  // after - before
  std::vector<RunDifference> differences;
  /// BETTER, WORSE, SAME: the interval lies on one side of 0, or on both. UNCLEAR where the runs
  /// are of other configurations: what made the change nobody can say.
  std::string verdict;
  bool other_configuration() const;
  /// The interval says that it got worse, and the mean is so by more than this percentage of what
  /// it was; of whatever configurations the runs are.
  bool worse_by(double percent) const;
};
/// `least`: what partners share at least. Throws Error where the runs monitor different metrics or
/// no model has a partner.
RunComparison compare_runs(const RunReport& before, const RunReport& after,
                           Pairing least = Pairing::configuration);
/// The errors of `compare_runs` before there is a result.
void check_comparable(const RunReport& before, const RunReport& after);
/// One line of an error: what got worse, and by how much.
std::string worse_line(const RunComparison& comparison, double percent);
nlohmann::ordered_json to_json(const RunComparison& comparison);
std::string comparison_text(const RunComparison& comparison);

}  // namespace wide
