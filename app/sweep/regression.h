#pragma once
#include <optional>
#include <string>

#include "app/cli.h"
#include "data/reports/run/run.h"
#include "data/reports/sweep/compare.h"

namespace wide {

/// Exit code 4 where a trial is incorrect, else 5 where one crashed, hung or ran out of memory; one
/// line says which.
Complaint failed_trials(const SweepReport& report);

/// What a comparison says against `report`: exit code 3 names the trials that are SLOWER by more
/// than `percent` more time; 1 says what nothing can be said of, since other programs disturbed it.
std::vector<Complaint> slower_trials(const SweepReport& report, const SweepReport& reference,
                                     const Comparison& comparison, double percent);

/// The options `--against NAME --fail-on-regression PCT`, for commands that have a report.
class Against {
 public:
  void declare(CLI::App& app);
  /// To be called before the work: half of the options without the other half is refused, and so
  /// is a reference that there is not.
  void prepare(const std::string& db);
  /// Compares, and says on stdout, unless `quiet`, what changed. Nothing without --against; no
  /// complaints without --fail-on-regression.
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
