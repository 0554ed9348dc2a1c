#include "data/reports/sweep/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "data/machine/load.h"
#include "data/reports/apart.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/measure/statistics.h"

namespace wide {
namespace {

constexpr const char* kStatuses[] = {"ok",      "incorrect", "unsupported", "oom",    "timeout",
                                     "crashed", "cancelled", "interrupted", "skipped"};

/// Its median over the rounds in which the candidate was timed too: the ratios are of those.
double median_beside(const Timing& baseline, const Timing& candidate) {
  const auto common = static_cast<std::ptrdiff_t>(
      std::min(baseline.samples_ns.size(), candidate.samples_ns.size()));
  if (common == 0) return baseline.median_ns;
  return median({baseline.samples_ns.begin(), baseline.samples_ns.begin() + common});
}

}  // namespace

const char* to_string(Status status) { return kStatuses[static_cast<size_t>(status)]; }

Status status_of(const std::string& word) {
  const auto found = std::find(std::begin(kStatuses), std::end(kStatuses), word);
  if (found == std::end(kStatuses))
    fail("[status] word: got {}, expected one of {}; try ok", printable(word),
         listing({std::begin(kStatuses), std::end(kStatuses)}, 99));
  return static_cast<Status>(found - std::begin(kStatuses));
}

Ending ending_of(Status status) {
  switch (status) {
    case Status::ok:
      return Ending::right;
    case Status::incorrect:
      return Ending::incorrect;
    case Status::timeout:
    case Status::crashed:
    case Status::oom:
      return Ending::failed;
    case Status::unsupported:
    case Status::skipped:
      return Ending::left_out;
    case Status::cancelled:
    case Status::interrupted:
      break;
  }
  return Ending::not_finished;
}

Ending ending_of(const std::string& status) {
  const auto found = std::find(std::begin(kStatuses), std::end(kStatuses), status);
  return found == std::end(kStatuses) ? Ending::failed : ending_of(status_of(status));
}

Speedup speedup_of(const std::vector<Timing>& baselines, const Timing& candidate, uint64_t seed) {
  WIDE_ASSERT(!baselines.empty());
  Speedup result;
  for (const Timing& b : baselines)
    if (b.name == "loop") result.vs_loop = speedup(b, candidate, seed);
  const auto best = std::ranges::min_element(
      baselines, {}, [&](const Timing& b) { return median_beside(b, candidate); });
  result.vs_best = speedup(*best, candidate, seed);
  result.best_baseline = best->name;
  return result;
}

std::string disturbed_text(const std::vector<Case>& cases) {
  size_t disturbed = 0;
  double most = 0;
  for (const Case& c : cases)
    if (c.disturbed) {
      ++disturbed;
      most = std::max(most, c.other_load);
    }
  if (disturbed == 0) return "";
  // On a GPU, other processes on the device disturb cases; notes of the cases name them.
  const std::string who =
      most > kDisturbedShare
          ? fmt::format("other programs took up to {:.0f} % of the cores", 100 * most)
          : "other processes had work on its device";
  return fmt::format(
      "{} of {} cases {} disturbed, UNCLEAR: {}; --resume --again disturbed measures just {} again",
      disturbed, cases.size(), disturbed == 1 ? "is" : "are", who,
      disturbed == 1 ? "that" : "those");
}

std::string speedup_text(const std::optional<Interval>& i) {
  if (!i) return "";
  const int digits = i->value < 10 ? 2 : 1;
  return fmt::format("{:.{}f}x [{:.{}f}, {:.{}f}]", i->value, digits, i->low, digits, i->high,
                     digits);
}

std::string error_text(double relative) {
  return relative == 0 ? "0" : fmt::format("{:.1e}", relative);
}

std::string verdict_of(const FuseResult& result) {
  if (!result.correctness.pass || !result.speedup) return "";
  return result.disturbed ? "UNCLEAR" : verdict(result.speedup->vs_best);
}

AlongN along_n(const std::vector<FuseResult>& curve) {
  AlongN along;
  bool faster = true;  // at this N and all larger ones
  for (auto it = curve.rbegin(); it != curve.rend(); ++it) {
    faster = faster && verdict_of(*it) == "FASTER";
    if (faster) along.crossover = it->n;
  }
  for (const FuseResult& r : curve) {
    if (!r.correctness.pass) continue;
    for (const Timing& t : r.results) {
      if (t.kind != "candidate" || !(t.median_ns > 0)) continue;
      const double models_per_s = 1e9 * static_cast<double>(r.n) / t.median_ns;
      if (models_per_s > along.models_per_s) along.best_n = r.n, along.models_per_s = models_per_s;
    }
  }
  return along;
}

const Environment& environment_of(const SweepReport& report, const Case& c) {
  for (const Environment& machine : report.machines)
    if (machine_name(machine) == c.machine) return machine;
  return report.environment;
}

std::vector<VerdictCurve> verdict_curves(const std::vector<Case>& cases) {
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string,
                         std::string, std::string, std::string>;
  const Apart apart(cases);
  std::map<Key, std::vector<VerdictAt>> curves;
  std::vector<Key> order;
  for (const Case& c : cases)
    for (const Trial& t : c.trials) {
      const Key key{c.target, c.shape, c.dtype,    c.device,
                    c.mode,   c.phase, t.strategy, apart.several() ? apart.of(c) : ""};
      if (!curves.count(key)) order.push_back(key);
      auto& points = curves[key];
      if (t.status != Status::unsupported)
        points.push_back({c.n, t.status == Status::ok && t.verdict == "FASTER",
                          t.status == Status::ok && c.disturbed});
    }
  std::vector<VerdictCurve> found;
  for (const Key& key : order) {
    VerdictCurve& curve = found.emplace_back();
    Crossover& of = curve.of;
    std::tie(of.target, of.shape, of.dtype, of.device, of.mode, of.phase, of.strategy, of.machine) =
        key;
    curve.points = std::move(curves[key]);
    std::ranges::sort(curve.points, {}, &VerdictAt::n);
  }
  return found;
}

std::optional<int64_t> crossover_of(const std::vector<VerdictAt>& points) {
  std::optional<int64_t> n;
  for (auto it = points.rbegin(); it != points.rend() && it->faster; ++it) n = it->n;
  return n;
}

std::vector<Crossover> crossovers(const std::vector<Case>& cases) {
  std::vector<Crossover> found;
  for (const VerdictCurve& curve : verdict_curves(cases)) {
    found.push_back(curve.of);
    found.back().n = crossover_of(curve.points);
  }
  return found;
}

}  // namespace wide
