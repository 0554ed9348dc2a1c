#pragma once
#include <optional>
#include <string>

#include "data/reports/report.h"

namespace CLI {
class App;
}

namespace wide {

/// Compares with a reference and says on stdout, unless `quiet`, what is slower; throws Error with
/// exit code 3 that names the trials when one is SLOWER by more than `percent` more time (none:
/// nothing is refused).
void regression_check(const SweepReport& report, const SweepReport& reference,
                      std::optional<double> percent, bool quiet = false);

/// The options `--against NAME --fail-on-regression PCT`, for commands that have a report.
class Against {
 public:
  void declare(CLI::App& app);
  /// To be called before the work: half of the options without the other half is refused, and so
  /// is a reference that there is not.
  void prepare(const std::string& db);
  /// Nothing without --against.
  void check(const SweepReport& report, const std::string& db, bool quiet = false);

 private:
  std::string name_;
  double percent_ = -1;
  std::optional<SweepReport> reference_;
};

}  // namespace wide
