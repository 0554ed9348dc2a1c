#pragma once
#include <functional>
#include <optional>
#include <string>

#include "app/cli.h"
#include "data/reports/run/run.h"
#include "data/reports/sweep/compare/compare.h"

namespace wide {

/// A complaint with exit code 4 if a trial is incorrect, else 5 if one crashed, hung or ran out of
/// memory; its line names them. Exit code 0 if there is neither.
Complaint failed_trials(const SweepReport& report);

/// Complaints for --fail-on-regression: exit code 3 naming the trials that `regressions` returns;
/// exit code 1 if there is no trial to compare, and naming those whose change is unknown, as other
/// programs disturbed one of the sweeps. Trials on other hardware are UNCLEAR as well, but cause no
/// complaint.
std::vector<Complaint> slower_trials(const SweepReport& report, const SweepReport& reference,
                                     const Comparison& comparison, double percent);

/// "12 trials are SLOWER relative to their baselines, but not slower by themselves": those that are
/// no regression as their baselines became faster; "" if there are none.
std::string faster_baselines_text(const Comparison& comparison, double percent);

/// The options `--against NAME --fail-on-regression PCT`, for commands that have a report.
class Against {
 public:
  void declare(CLI::App& app);
  /// Whether --fail-on-regression is given. Throws Error if --against is not.
  bool fails_on_regression() const;
  /// Finds the sweep to compare with. Call it before long work, so that a wrong name fails at once.
  /// `keep_asked` removes from it what is not to be compared. Throws Error as
  /// `fails_on_regression` does, and for a sweep that does not exist.
  void prepare(const std::string& db, const std::function<void(SweepReport*)>& keep_asked);
  /// Compares with what `prepare` found, and prints what changed on stdout unless `quiet`. Does
  /// nothing without --against; returns no complaints without --fail-on-regression.
  std::vector<Complaint> check(const SweepReport& report, bool quiet = false) const;
  /// The same for a training run: --against names another one, which is read here, not by
  /// `prepare`.
  std::vector<Complaint> check(const RunReport& run, const std::string& db,
                               bool quiet = false) const;

 private:
  std::string name_;
  double percent_ = -1;
  std::optional<SweepReport> reference_;
};

}  // namespace wide
