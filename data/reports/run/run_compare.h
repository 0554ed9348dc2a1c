#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/reports/run/run_report.h"

// Two training runs beside each other, model by model.
namespace wide {

/// How models of two runs are paired: by equal hyperparameters, seeds and fold; or, if no two agree
/// in these, by equal seeds and fold, which compares different hyperparameters.
enum class Pairing { configuration, seeds };

/// A setting that differs between two runs, as text.
struct RunDifference {
  std::string what, before, after;
  /// Whether it may have caused a change of the results. False for the number of steps, which a
  /// resumed run may change, and for metrics.
  bool other_configuration = true;
};

/// The comparison of two runs over pairs of models.
struct RunComparison {
  Pairing pairing = Pairing::configuration;  // how pairs were made
  std::string metric;
  bool more_is_better = true;
  int64_t pairs = 0, alone = 0;  // `alone`: models of either run without a partner
  int64_t pruned = 0;            // of both runs; these have no pairs
  double before = 0, after = 0;  // means over the pairs
  std::optional<Spread> change;  // after - before; its interval is widened where pairs are few
  std::vector<RunDifference> differences;
  /// BETTER or WORSE if the interval lies on one side of 0, SAME if it contains 0. UNCLEAR if the
  /// runs differ in something that may have caused the change, or one pair is all there is.
  std::string verdict;
  /// Whether any of the differences may have caused the change.
  bool other_configuration() const;
  /// Whether the interval shows that it got worse, and the mean by more than this percentage of its
  /// old value. What else differs between the runs does not count.
  bool worse_by(double percent) const;
};
/// `least`: the weakest pairing allowed. Throws Error if the runs monitor different metrics or no
/// model has a partner.
RunComparison compare_runs(const RunReport& before, const RunReport& after,
                           Pairing least = Pairing::configuration);
/// Throws the errors of `compare_runs` that can be found before `after` has results.
void check_comparable(const RunReport& before, const RunReport& after);
/// The line of an error message: what got worse, and by how much.
std::string worse_line(const RunComparison& comparison, double percent);
nlohmann::ordered_json to_json(const RunComparison& comparison);
std::string comparison_text(const RunComparison& comparison);

}  // namespace wide
