#pragma once
#include <optional>
#include <string>

#include "app/cli.h"
#include "data/reports/run/run.h"
#include "data/reports/sweep/compare.h"

namespace wide {

/// A complaint with exit code 4 if a trial is incorrect, else 5 if one crashed, hung or ran out of
/// memory; its line names them.
Complaint failed_trials(const SweepReport& report);

/// Complaints about `report` from a comparison: exit code 3 with the trials that are SLOWER and
/// take more than `percent` more time; exit code 1 with the trials that were disturbed, so that
/// nothing is known.
std::vector<Complaint> slower_trials(const SweepReport& report, const SweepReport& reference,
                                     const Comparison& comparison, double percent);

/// The options `--against NAME --fail-on-regression PCT`, for commands that have a report.
class Against {
 public:
  void declare(CLI::App& app);
  /// To be called before the work. Throws Error if only one of the two options is given, or the
  /// reference does not exist.
  void prepare(const std::string& db);
  /// Compares, and prints what changed on stdout unless `quiet`. Does nothing without --against;
  /// returns no complaints without --fail-on-regression.
  std::vector<Complaint> check(const SweepReport& report, const std::string& db,
                               bool quiet = false);
  /// The same of a training run, against another one: as `train --against`.
  std::vector<Complaint> check(const RunReport& run, const std::string& db,
                               bool quiet = false) const;

 private:
  void check_halves() const;

  std::string name_;
  double percent_ = -1;
  std::optional<SweepReport> reference_;
};

}  // namespace wide
