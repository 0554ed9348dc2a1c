#include "app/sweep/regression.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/options.h"
#include "app/results/compare_text.h"
#include "app/results/results.h"
#include "data/reports/compare.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {

void regression_check(const SweepReport& report, const SweepReport& reference,
                      std::optional<double> percent, bool quiet) {
  const Comparison comparison = compare_sweeps(reference, report);
  if (!quiet) fmt::print("\n{}", comparison_text(comparison));
  if (!percent) return;
  std::vector<std::string> names;
  for (const ComparedTrial& t : regressions(comparison, *percent))
    names.push_back(fmt::format("{} +{:.0f} % [{:.0f}, {:.0f}]", t.key.text(), t.slower_percent(),
                                100 * (1 / t.change.high - 1), 100 * (1 / t.change.low - 1)));
  if (names.empty()) return;
  throw Error(fmt::format("[{}] regression: got {} trials slower than in {} ({}), expected at most "
                          "+{:g} % time; try workbench compare",
                          printable(report.name), names.size(), printable(reference.name),
                          listing(names), *percent),
              3);
}

void Against::declare(CLI::App& app) {
  app.add_option("--against", name_, "compare with this reference, or any SWEEP of `report`");
  app.add_option("--fail-on-regression", percent_,
                 "exit with 3 when a trial is SLOWER than there by more than this percentage")
      ->check(not_positive);
}

void Against::prepare(const std::string& db) {
  if (percent_ > 0 && name_.empty())
    fail(
        "[--fail-on-regression] reference: got none, expected one to compare with; try --against "
        "NAME");
  if (!name_.empty() && !reference_) reference_ = find_sweep(name_, db);
}

void Against::check(const SweepReport& report, const std::string& db, bool quiet) {
  prepare(db);
  if (!reference_) return;
  regression_check(report, *reference_, percent_ > 0 ? std::optional(percent_) : std::nullopt,
                   quiet);
}

}  // namespace wide
