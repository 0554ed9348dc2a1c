#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"

// What changed from one sweep to another.
//
// Two runs of one build differ by more than the scatter of samples within a run: memory addresses,
// clocks and other processes change. So a trial is compared by its speedup over the baselines of
// its case: what slows the whole machine cancels. The logarithm of that change, d, has three
// sources of error:
//  - within the runs: a bootstrap over medians, rounds of one case drawn together in blocks;
//  - between the runs: one trial cannot show it, but all trials together do. The same
//    strategy at other Ns and shapes should have changed alike, and baselines should not have
//    changed against each other at all; how much they scatter is the noise of this machine (robust
//    quantiles, so that a real change of some trials does not count, mixed with a guess of 2.5 %
//    worth five trials). Cases marked as disturbed count with twice the noise;
//  - of the machine: where the baselines of a case changed apart, by as much as they did.
// The interval of a trial is d -+ t * error, with t such that with probability 99 % all intervals
// of a comparison hold at once: a sweep has hundreds of trials, and one false alarm is one too
// many. Verdicts follow from the interval as everywhere else.
namespace wide {

struct TrialKey {
  std::string target, shape, dtype, device, mode, phase, strategy;
  int64_t n = 0;
  std::string machine = {};  // where one of the sweeps measured it on several; else ""
  auto operator<=>(const TrialKey&) const = default;
  /// "conv2d/grouped n=8 B8 C64".
  std::string text() const;
};

/// A trial that is correct and timed in both sweeps.
struct ComparedTrial {
  TrialKey key;
  double before_ns = 0, after_ns = 0;
  Interval change;          // speed after / before, relative to the baselines: 0.5 is half as fast
  std::string verdict;      // FASTER, SLOWER, SAME, UNCLEAR: after against before
  std::string why_unclear;  // why no number can be trusted; else ""
  bool disturbed = false;   // it is UNCLEAR only because other programs disturbed a sweep
  /// Percent more time than before, as `--fail-on-regression` counts.
  double slower_percent() const { return 100 * (1 / change.value - 1); }
};

struct StatusChange {
  TrialKey key;
  std::string before, after;  // status; "" if the sweep has no such trial
};

/// Over the Ns that both sweeps measured while other programs disturbed neither.
struct CrossoverChange {
  Crossover where;  // n unused
  std::optional<int64_t> before, after;
  /// "conv2d/grouped B8 C64 backward".
  std::string text() const;
};

struct Difference {
  std::string what, before, after;
};

struct Comparison {
  std::string before, after;            // the sweeps' names with their dates
  std::vector<std::string> hardware;    // why no times can be compared; empty if some can
  std::vector<Difference> environment;  // differences, without what varies by itself (clocks)
  double noise = 0;                     // between sweeps: standard deviation of a log ratio
  std::vector<ComparedTrial> trials;    // slowest change first
  std::vector<StatusChange> statuses;   // trials of one sweep only included
  std::vector<CrossoverChange> crossovers;
};

Comparison compare_sweeps(const SweepReport& before, const SweepReport& after);

/// Trials that are SLOWER and take more than `percent` more time relative to the baselines, and at
/// least half of that in absolute time too, so that a faster baseline alone is no regression.
/// Slowest first.
std::vector<ComparedTrial> regressions(const Comparison& comparison, double percent);

/// How many more are SLOWER by that relative to the baselines, but not in absolute time.
size_t slower_beside_only(const Comparison& comparison, double percent);

nlohmann::ordered_json to_json(const Comparison& comparison);

}  // namespace wide
