#include "app/sweep/regression.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/cli.h"
#include "app/options.h"
#include "app/results/compare_text.h"
#include "app/results/results.h"
#include "app/results/runs.h"
#include "data/escape.h"
#include "data/reports/run/run_compare.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {

Complaint failed_trials(const SweepReport& report) {
  for (const auto& [ending, code] : {std::pair{Ending::incorrect, 4}, {Ending::failed, 5}}) {
    std::vector<std::string> trials;
    std::string first;  // target
    for (const Case& c : report.cases)
      for (const Trial& t : c.trials) {
        if (ending_of(t.status) != ending) continue;
        if (trials.empty()) first = shell_word(c.target);
        trials.push_back(
            fmt::format("{}/{} n={} {}", c.target, t.strategy, c.n, to_string(t.status)));
      }
    if (!trials.empty())
      return {code, fmt::format("[{}] trials: got {} incorrect or failed ({}), expected none; try "
                                "--targets {}",
                                printable(report.name), trials.size(), listing(trials), first)};
  }
  return {};
}

std::vector<Complaint> slower_trials(const SweepReport& report, const SweepReport& reference,
                                     const Comparison& comparison, double percent) {
  std::vector<Complaint> complaints;
  std::vector<std::string> slower, disturbed;
  for (const ComparedTrial& t : regressions(comparison, percent))
    slower.push_back(fmt::format("{} +{:.0f} % [{:.0f}, {:.0f}]", t.key.text(), t.slower_percent(),
                                 100 * (1 / t.change.high - 1), 100 * (1 / t.change.low - 1)));
  for (const ComparedTrial& t : comparison.trials)
    if (t.disturbed) disturbed.push_back(t.key.text());
  if (comparison.trials.empty())
    complaints.push_back(
        {1, fmt::format("[{}] regression: got no trial that ended in both this sweep "
                        "and {}, expected some to compare; try the same preset",
                        printable(report.name), printable(reference.name))});
  if (!slower.empty())
    complaints.push_back(
        {3, fmt::format("[{}] regression: got {} trials slower than in {} ({}), expected at most "
                        "+{:g} % time; try workbench compare",
                        printable(report.name), slower.size(), printable(reference.name),
                        listing(slower), percent)});
  if (!disturbed.empty())
    complaints.push_back(
        {1, fmt::format("[{}] regression: got {} trials that other programs disturbed here or in "
                        "{} ({}), expected a quiet machine; try workbench sweep PRESET --resume "
                        "--again disturbed",
                        printable(report.name), disturbed.size(), printable(reference.name),
                        listing(disturbed))});
  return complaints;
}

std::string faster_baselines_text(const Comparison& comparison, double percent) {
  const size_t count = slower_beside_only(comparison, percent);
  if (count == 0) return "";
  if (count == 1) return "1 trial is SLOWER relative to its baselines, but not slower by itself";
  return fmt::format(
      "{} trials are SLOWER relative to their baselines, but not slower by themselves", count);
}

void Against::declare(CLI::App& app) {
  app.add_option(
      "--against", name_,
      "compare with this reference or any SWEEP of `report`; a training run, with another RUN");
  app.add_option(
         "--fail-on-regression", percent_,
         "exit with 3 when a trial is SLOWER than there by more than this percentage "
         "relative to its baselines, and takes at least half as much more time by itself; "
         "with 4 or 5 when one is incorrect or failed, with 1 when other programs disturbed "
         "one or none is in both")
      ->check(not_positive);
}

bool Against::fails_on_regression() const {
  if (percent_ > 0 && name_.empty())
    fail(
        "[--fail-on-regression] reference: got none, expected one to compare with; try --against "
        "NAME");
  return percent_ > 0;
}

void Against::prepare(const std::string& db, const std::function<void(SweepReport*)>& keep_asked) {
  fails_on_regression();
  if (name_.empty()) return;
  reference_ = find_sweep(name_, db);
  keep_asked(&*reference_);
}

std::vector<Complaint> Against::check(const SweepReport& report, bool quiet) const {
  if (!reference_) return {};
  const Comparison comparison = compare_sweeps(*reference_, report);
  if (!quiet) print_plain(fmt::format("\n{}", comparison_text(comparison)));
  if (!fails_on_regression()) return {};
  if (const std::string line = faster_baselines_text(comparison, percent_); !quiet && !line.empty())
    print_plain(line + "\n");
  return slower_trials(report, *reference_, comparison, percent_);
}

std::vector<Complaint> Against::check(const RunReport& run, const std::string& db,
                                      bool quiet) const {
  const bool fails = fails_on_regression();
  if (name_.empty()) return {};
  const RunComparison comparison = compare_runs(find_run(name_, db), run);
  if (!quiet) print_plain(fmt::format("\n{}", comparison_text(comparison)));
  if (!fails || !comparison.worse_by(percent_)) return {};
  return {{3, worse_line(comparison, percent_)}};
}

}  // namespace wide
