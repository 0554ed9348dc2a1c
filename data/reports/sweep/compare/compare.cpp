#include "data/reports/sweep/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data/reports/sweep/compare/compare_noise.h"
#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_tables.h"

namespace wide {
namespace {

constexpr double kAllHoldMiss = 0.01;  // probability that any interval of a comparison misses
constexpr double kDisturbed = 2;       // factor of the noise
constexpr double kSameBand = 0.03;

/// Not by `verdict`, which widens single intervals: these allow for their number already.
std::string verdict_of_change(const Interval& i) {
  if (i.low >= 1 - kSameBand && i.high <= 1 + kSameBand) return "SAME";
  if (i.low > 1) return "FASTER";
  return i.high < 1 ? "SLOWER" : "UNCLEAR";
}

/// The shape, and what is not the default.
template <class Where>
std::string unusual_text(const Where& w) {
  std::string out;
  for (const std::string& part :
       {w.shape, w.mode == "default" ? "" : w.mode, w.phase == "forward" ? "" : w.phase,
        w.dtype == "f32" ? "" : w.dtype, w.device == "cpu" ? "" : w.device})
    if (!part.empty()) out += " " + part;
  return w.machine.empty() ? out : out + " on " + w.machine;
}

TrialKey key_of(const Case& c, const Trial& t) {
  return {c.target, c.shape, c.dtype, c.device, c.mode, c.phase, t.strategy, c.n};
}

std::string machine_of(const SweepReport& report, const Case& c) {
  return c.machine.empty() ? machine_name(report.environment) : c.machine;
}

struct Side {
  const Case* c = nullptr;
  const Trial* t = nullptr;
  std::string machine;
};
using Sides = std::vector<Side>;

const Side* on(const Sides& sides, const std::string& machine) {
  for (const Side& s : sides)
    if (s.machine == machine) return &s;
  return nullptr;
}

/// Trials by key without the machine. Of equal ones on one machine the first is used.
std::map<TrialKey, Sides> trials_of(const SweepReport& report) {
  std::map<TrialKey, Sides> out;
  for (const Case& c : report.cases)
    for (const Trial& t : c.trials) {
      Sides& sides = out[key_of(c, t)];
      const std::string machine = machine_of(report, c);
      if (!on(sides, machine)) sides.push_back({&c, &t, machine});
    }
  return out;
}

/// A trial of both sweeps; null for a sweep that lacks it.
struct TrialPair {
  TrialKey key;
  const Side *before, *after;
};

/// The result that `side` of `after` is compared with: of the same machine, else the only one, or
/// one of equal hardware.
const Side* partner(const Side& side, const Sides& before, const Sides& after) {
  if (const Side* same = on(before, side.machine)) return same;
  if (before.size() == 1) return on(after, before[0].machine) ? nullptr : &before[0];
  for (const Side& s : before)
    if (hardware_of(s.machine) == hardware_of(side.machine) && !on(after, s.machine)) return &s;
  return after.size() == 1 ? &before[0] : nullptr;
}

std::vector<TrialPair> trial_pairs(const std::map<TrialKey, Sides>& then,
                                   const std::map<TrialKey, Sides>& now) {
  static const Sides kNone;
  std::vector<TrialPair> out;
  std::set<TrialKey> keys;
  for (const auto* trials : {&then, &now})
    for (const auto& [key, sides] : *trials) keys.insert(key);
  for (const TrialKey& key : keys) {
    const auto old_side = then.find(key), new_side = now.find(key);
    const Sides& before = old_side == then.end() ? kNone : old_side->second;
    const Sides& after = new_side == now.end() ? kNone : new_side->second;
    const bool several = before.size() > 1 || after.size() > 1;
    const auto named = [&](const Side& side) {
      TrialKey full = key;
      if (several) full.machine = side.machine;
      return full;
    };
    std::set<const Side*> taken;
    for (const Side& side : after) {
      const Side* other = before.empty() ? nullptr : partner(side, before, after);
      taken.insert(other);
      out.push_back({named(side), other, &side});
    }
    for (const Side& side : before)
      if (!taken.count(&side)) out.push_back({named(side), &side, nullptr});
  }
  return out;
}

std::vector<std::string> other_hardware(const Environment& a, const Environment& b) {
  std::vector<std::string> out;
  const auto compare = [&](const char* what, const std::string& x, const std::string& y) {
    if (x != y)
      out.push_back(fmt::format("{}: {} before, {} after", what, x.empty() ? "none" : x,
                                y.empty() ? "none" : y));
  };
  compare("CPU", a.cpu, b.cpu);
  compare("GPU", a.gpu, b.gpu);
  compare("cores", fmt::format("{}", a.cores), fmt::format("{}", b.cores));
  compare("threads", fmt::format("{}", a.threads), fmt::format("{}", b.threads));
  return out;
}

std::vector<Difference> differences_of(const Environment& a, const Environment& b) {
  // Facts that change from minute to minute.
  static const std::set<std::string> volatile_rows = {
      "date", "command", "cpu mhz", "cpu temperature_c", "cpu throttles", "cpu load"};
  std::map<std::string, std::string> before;
  for (const auto& row : environment_table(a).rows) before[row[0].text] = row[1].text;
  std::vector<Difference> out;
  for (const auto& row : environment_table(b).rows) {
    const std::string& what = row[0].text;
    // Measured peaks differ in every run.
    if (volatile_rows.count(what) || what.rfind("peaks", 0) == 0) continue;
    const auto it = before.find(what);
    const std::string was = it == before.end() ? "" : it->second;
    if (was != row[1].text) out.push_back({what, was, row[1].text});
  }
  return out;
}

/// Cases by hardware, as crossovers of different hardware are not compared.
std::map<std::string, std::vector<Case>> cases_by_hardware(const SweepReport& report) {
  std::map<std::string, std::vector<Case>> all;
  for (const Case& c : report.cases) {
    all[hardware_of(machine_of(report, c))].push_back(c);
  }
  return all;
}

/// Those at an N that `other` has too, where other programs disturbed neither.
std::vector<VerdictAt> points_beside(const std::vector<VerdictAt>& points,
                                     const std::vector<VerdictAt>& other) {
  std::vector<VerdictAt> common;
  std::ranges::copy_if(points, std::back_inserter(common), [&](const VerdictAt& point) {
    const auto there = std::ranges::lower_bound(other, point.n, {}, &VerdictAt::n);
    return there != other.end() && there->n == point.n && !there->disturbed && !point.disturbed;
  });
  return common;
}

std::vector<CrossoverChange> crossovers_of(const SweepReport& before, const SweepReport& after) {
  const auto key = [](const Crossover& c) {
    return std::tie(c.target, c.shape, c.dtype, c.device, c.mode, c.phase, c.strategy);
  };
  std::vector<CrossoverChange> out;
  const auto old_cases = cases_by_hardware(before), new_cases = cases_by_hardware(after);
  const bool several = old_cases.size() > 1 || new_cases.size() > 1;
  for (const auto& [hardware, cases] : new_cases) {
    const auto there = old_cases.find(hardware);
    if (there == old_cases.end()) continue;
    const std::vector<VerdictCurve> old = verdict_curves(there->second);
    for (const VerdictCurve& now : verdict_curves(cases))
      for (const VerdictCurve& then : old)
        if (const Crossover& to = now.of, &from = then.of;
            key(to) == key(from) &&
            (to.machine.empty() || from.machine.empty() || to.machine == from.machine)) {
          const auto was = crossover_of(points_beside(then.points, now.points)),
                     is = crossover_of(points_beside(now.points, then.points));
          if (was == is) break;
          CrossoverChange& change = out.emplace_back(CrossoverChange{to, was, is});
          if (to.machine.empty()) change.where.machine = from.machine;
          if (several && change.where.machine.empty()) change.where.machine = hardware;
          break;
        }
  }
  return out;
}

/// Slower relative to the baselines.
bool slower_beside(const ComparedTrial& t, double percent) {
  return t.verdict == "SLOWER" && t.slower_percent() > percent;
}

/// Slower in absolute time, by half as much at least.
bool slower_alone(const ComparedTrial& t, double percent) {
  return t.after_ns > t.before_ns * (1 + percent / 200);
}

std::string title(const SweepReport& report) {
  return report.environment.date.empty() ? report.name
                                         : report.name + " of " + report.environment.date;
}

/// The trials to compare and their changes, case by case.
struct Work {
  std::vector<ComparedTrial> trials;
  std::vector<Change> changes;
  std::vector<bool> disturbed;
  std::vector<std::vector<std::string>> hardware;  // differences in hardware, by trial
  std::vector<double> apart;

  /// Changes from which the noise is estimated: those of equal hardware, or all if there is none.
  std::vector<Change> comparable() const {
    std::vector<Change> same;
    for (size_t i = 0; i < changes.size(); ++i)
      if (hardware[i].empty()) same.push_back(changes[i]);
    return same.empty() ? changes : same;
  }
};

Work work_of(const SweepReport& old_report, const SweepReport& new_report,
             const std::vector<TrialPair>& both) {
  struct Pair {
    const Case *a, *b;
    std::vector<std::string> names;
    std::vector<ComparedTrial> trials;
  };
  std::vector<Pair> pairs;
  std::map<std::pair<const Case*, const Case*>, size_t> where;
  for (const auto& [key, before, after] : both) {
    if (!before || !after) continue;
    const Side &then = *before, &now = *after;
    if (now.t->status != Status::ok || then.t->status != Status::ok) continue;
    if (now.t->timing.samples_ns.empty() && then.t->timing.samples_ns.empty()) continue;
    const auto [at, fresh] = where.try_emplace({then.c, now.c}, pairs.size());
    if (fresh) pairs.push_back({then.c, now.c, {}, {}});
    ComparedTrial trial;
    trial.key = key;
    trial.before_ns = then.t->timing.median_ns;
    trial.after_ns = now.t->timing.median_ns;
    pairs[at->second].names.push_back(key.strategy);
    pairs[at->second].trials.push_back(std::move(trial));
  }
  Work work;
  uint64_t seed = 0;
  for (Pair& pair : pairs) {
    const auto hardware =
        other_hardware(environment_of(old_report, *pair.a), environment_of(new_report, *pair.b));
    std::vector<double> of_others;
    std::vector<Change> changes = changes_of(*pair.a, *pair.b, pair.names, seed++,
                                             hardware.empty() ? &work.apart : &of_others);
    for (size_t i = 0; i < changes.size(); ++i) {
      work.changes.push_back(std::move(changes[i]));
      work.trials.push_back(std::move(pair.trials[i]));
      work.disturbed.push_back(pair.a->disturbed || pair.b->disturbed);
      work.hardware.push_back(hardware);
    }
  }
  return work;
}

}  // namespace

std::string TrialKey::text() const {
  return fmt::format("{}/{} n={}", target, strategy, n) + unusual_text(*this);
}

std::string CrossoverChange::text() const {
  return fmt::format("{}/{}", where.target, where.strategy) + unusual_text(where);
}

Comparison compare_sweeps(const SweepReport& before, const SweepReport& after) {
  Comparison out;
  out.before = title(before);
  out.after = title(after);
  out.hardware = other_hardware(before.environment, after.environment);
  out.environment = differences_of(before.environment, after.environment);
  out.crossovers = crossovers_of(before, after);
  const auto then = trials_of(before), now = trials_of(after);
  const std::vector<TrialPair> both = trial_pairs(then, now);
  std::vector<StatusChange> fresh;  // only in `after`; appended behind the others
  for (const TrialPair& m : both) {
    const std::string was = m.before ? to_string(m.before->t->status) : "";
    const std::string is = m.after ? to_string(m.after->t->status) : "";
    if (was != is) (m.before ? out.statuses : fresh).push_back({m.key, was, is});
  }
  out.statuses.insert(out.statuses.end(), fresh.begin(), fresh.end());

  const Work work = work_of(before, after, both);
  const bool none_compares = std::none_of(work.hardware.begin(), work.hardware.end(),
                                          [](const auto& h) { return h.empty(); });
  if (!work.hardware.empty())
    out.hardware = none_compares ? work.hardware.front() : std::vector<std::string>{};
  const Noise noise = noise_of(work.comparable(), work.apart);
  out.noise = noise.scale;
  const auto count = static_cast<double>(std::max<size_t>(1, work.trials.size()));
  const double t = student_quantile(kAllHoldMiss / count, noise.freedom);
  for (size_t i = 0; i < work.trials.size(); ++i) {
    ComparedTrial trial = work.trials[i];
    const Change& change = work.changes[i];
    const double between = noise.scale * (work.disturbed[i] ? kDisturbed : 1);
    const double error = t * std::hypot(change.within, between, change.machine);
    trial.change = {std::exp(change.log), std::exp(change.log - error),
                    std::exp(change.log + error)};
    trial.verdict = verdict_of_change(trial.change);
    if (!change.known) trial.why_unclear = "no baseline or too few samples in common";
    if (work.disturbed[i]) trial.why_unclear = "other programs disturbed it";
    const std::vector<std::string>& hardware = work.hardware[i];
    trial.disturbed = work.disturbed[i] && hardware.empty();
    if (!hardware.empty()) trial.why_unclear = "other hardware: " + hardware.front();
    if (!trial.why_unclear.empty()) trial.verdict = "UNCLEAR";
    out.trials.push_back(std::move(trial));
  }
  std::ranges::stable_sort(out.trials, {}, [](const auto& each) { return each.change.value; });
  return out;
}

std::vector<ComparedTrial> regressions(const Comparison& comparison, double percent) {
  std::vector<ComparedTrial> out;
  for (const ComparedTrial& t : comparison.trials)
    if (slower_beside(t, percent) && slower_alone(t, percent)) out.push_back(t);
  return out;
}

size_t slower_beside_only(const Comparison& comparison, double percent) {
  return static_cast<size_t>(std::ranges::count_if(comparison.trials, [&](const auto& t) {
    return slower_beside(t, percent) && !slower_alone(t, percent);
  }));
}

nlohmann::ordered_json to_json(const Comparison& comparison) {
  using Json = nlohmann::ordered_json;
  const auto known = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  const auto number = [](const auto& n) { return n ? Json(*n) : Json(); };
  const auto of_key = [](const TrialKey& k) {
    Json item{{"target", k.target}, {"n", k.n},       {"shape", k.shape}, {"dtype", k.dtype},
              {"device", k.device}, {"mode", k.mode}, {"phase", k.phase}, {"strategy", k.strategy}};
    if (!k.machine.empty()) item["machine"] = k.machine;
    return item;
  };
  Json j;
  j["schema"] = 1;
  j["before"] = comparison.before;
  j["after"] = comparison.after;
  j["hardware"] = comparison.hardware;
  j["noise"] = comparison.noise;
  for (const char* list : {"environment", "trials", "statuses", "crossovers"})
    j[list] = Json::array();
  for (const Difference& d : comparison.environment)
    j["environment"].push_back({{"what", d.what}, {"before", known(d.before)}, {"after", d.after}});
  for (const ComparedTrial& t : comparison.trials) {
    Json item = of_key(t.key);
    item["before_ns"] = t.before_ns;
    item["after_ns"] = t.after_ns;
    item["change"] = {{"value", t.change.value},
                      {"interval", Json::array({t.change.low, t.change.high})}};
    item["verdict"] = t.verdict;
    item["reason"] = known(t.why_unclear);
    j["trials"].push_back(std::move(item));
  }
  for (const StatusChange& s : comparison.statuses) {
    Json item = of_key(s.key);
    item["before"] = known(s.before);
    item["after"] = known(s.after);
    j["statuses"].push_back(std::move(item));
  }
  for (const CrossoverChange& c : comparison.crossovers) {
    Json item{{"target", c.where.target},    {"shape", c.where.shape}, {"dtype", c.where.dtype},
              {"device", c.where.device},    {"mode", c.where.mode},   {"phase", c.where.phase},
              {"strategy", c.where.strategy}};
    if (!c.where.machine.empty()) item["machine"] = c.where.machine;
    item["before"] = number(c.before);
    item["after"] = number(c.after);
    j["crossovers"].push_back(std::move(item));
  }
  return j;
}

}  // namespace wide
