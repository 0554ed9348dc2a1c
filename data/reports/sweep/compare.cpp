#include "data/reports/sweep/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data/reports/sweep/compare_noise.h"
#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_tables.h"

namespace wide {
namespace {

constexpr double kAllHoldMiss = 0.01;  // probability that any interval of a comparison misses
constexpr double kDisturbed = 2;       // times the noise
constexpr double kSameBand = 0.03;

/// `verdict` widens an interval, since it knows nothing of how many there are; these are as wide
/// as their number asks for already.
std::string verdict_of_change(const Interval& i) {
  if (i.low >= 1 - kSameBand && i.high <= 1 + kSameBand) return "SAME";
  if (i.low > 1) return "FASTER";
  return i.high < 1 ? "SLOWER" : "UNCLEAR";
}

TrialKey key_of(const Case& c, const Trial& t) {
  return {c.target, c.shape, c.dtype, c.device, c.mode, c.phase, t.strategy, c.n};
}

struct Side {
  const Case* c = nullptr;
  const Trial* t = nullptr;
};

/// Where two cases have the same key the first counts.
std::map<TrialKey, Side> trials_of(const SweepReport& report) {
  std::map<TrialKey, Side> out;
  for (const Case& c : report.cases)
    for (const Trial& t : c.trials) out.emplace(key_of(c, t), Side{&c, &t});
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
  // These change from minute to minute.
  static const std::set<std::string> volatile_rows = {
      "date", "command", "cpu mhz", "cpu temperature_c", "cpu throttles", "cpu load"};
  std::map<std::string, std::string> before;
  for (const auto& row : environment_table(a).rows) before[row[0].text] = row[1].text;
  std::vector<Difference> out;
  for (const auto& row : environment_table(b).rows) {
    const std::string& what = row[0].text;
    // Measured peaks never repeat to the digit.
    if (volatile_rows.count(what) || what.rfind("peaks", 0) == 0) continue;
    const auto it = before.find(what);
    const std::string was = it == before.end() ? "" : it->second;
    if (was != row[1].text) out.push_back({what, was, row[1].text});
  }
  return out;
}

/// A crossover of one kind of hardware says nothing of another's.
std::map<std::string, std::vector<Case>> cases_by_hardware(const SweepReport& report) {
  std::map<std::string, std::vector<Case>> all;
  for (const Case& c : report.cases) {
    const std::string machine = c.machine.empty() ? machine_name(report.environment) : c.machine;
    all[hardware_of(machine)].push_back(c);
  }
  return all;
}

std::vector<CrossoverChange> crossovers_of(const SweepReport& before, const SweepReport& after) {
  const auto key = [](const Crossover& c) {
    return std::tie(c.target, c.shape, c.dtype, c.device, c.mode, c.phase, c.strategy);
  };
  std::vector<CrossoverChange> out;
  const auto old_cases = cases_by_hardware(before);
  for (const auto& [hardware, cases] : cases_by_hardware(after)) {
    const auto there = old_cases.find(hardware);
    if (there == old_cases.end()) continue;
    const std::vector<Crossover> old = crossovers(there->second);
    for (const Crossover& now : crossovers(cases))
      for (const Crossover& then : old)
        if (key(now) == key(then)) {
          if (now.n != then.n) out.push_back({now, then.n, now.n});
          break;
        }
  }
  return out;
}

std::string title(const SweepReport& report) {
  return report.environment.date.empty() ? report.name
                                         : report.name + " of " + report.environment.date;
}

/// Trials to compare, with their changes, by case.
struct Work {
  std::vector<ComparedTrial> trials;
  std::vector<Change> changes;
  std::vector<bool> disturbed;
  std::vector<std::vector<std::string>> hardware;  // that differs, of each trial
  std::vector<double> apart;

  /// Changes that say something of the noise: of the same hardware, or all where none is.
  std::vector<Change> comparable() const {
    std::vector<Change> same;
    for (size_t i = 0; i < changes.size(); ++i)
      if (hardware[i].empty()) same.push_back(changes[i]);
    return same.empty() ? changes : same;
  }
};

Work work_of(const SweepReport& old_report, const SweepReport& new_report) {
  const auto before = trials_of(old_report), after = trials_of(new_report);
  struct Pair {
    const Case *a, *b;
    std::vector<std::string> names;
    std::vector<ComparedTrial> trials;
  };
  std::vector<Pair> pairs;
  std::map<std::pair<const Case*, const Case*>, size_t> where;
  for (const auto& [key, now] : after) {
    const auto it = before.find(key);
    if (it == before.end()) continue;
    const Side& then = it->second;
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
  std::string out = fmt::format("{}/{} n={}", target, strategy, n);
  for (const std::string& part :
       {shape, mode == "default" ? "" : mode, phase == "forward" ? "" : phase,
        dtype == "f32" ? "" : dtype, device == "cpu" ? "" : device})
    if (!part.empty()) out += " " + part;
  return out;
}

Comparison compare_sweeps(const SweepReport& before, const SweepReport& after) {
  Comparison out;
  out.before = title(before);
  out.after = title(after);
  out.hardware = other_hardware(before.environment, after.environment);
  out.environment = differences_of(before.environment, after.environment);
  out.crossovers = crossovers_of(before, after);
  const auto then = trials_of(before), now = trials_of(after);
  for (const auto& [key, side] : then) {
    const auto it = now.find(key);
    const std::string status = it == now.end() ? "" : to_string(it->second.t->status);
    if (status != to_string(side.t->status))
      out.statuses.push_back({key, to_string(side.t->status), status});
  }
  for (const auto& [key, side] : now)
    if (!then.count(key)) out.statuses.push_back({key, "", to_string(side.t->status)});

  const Work work = work_of(before, after);
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
  std::stable_sort(out.trials.begin(), out.trials.end(),
                   [](const ComparedTrial& a, const ComparedTrial& b) {
                     return a.change.value < b.change.value;
                   });
  return out;
}

std::vector<ComparedTrial> regressions(const Comparison& comparison, double percent) {
  std::vector<ComparedTrial> out;
  for (const ComparedTrial& t : comparison.trials)
    if (t.verdict == "SLOWER" && t.slower_percent() > percent &&
        t.after_ns > t.before_ns * (1 + percent / 200))
      out.push_back(t);
  return out;
}

nlohmann::ordered_json to_json(const Comparison& comparison) {
  using Json = nlohmann::ordered_json;
  const auto known = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  const auto number = [](const auto& n) { return n ? Json(*n) : Json(); };
  const auto of_key = [](const TrialKey& k) {
    return Json{
        {"target", k.target}, {"n", k.n},       {"shape", k.shape}, {"dtype", k.dtype},
        {"device", k.device}, {"mode", k.mode}, {"phase", k.phase}, {"strategy", k.strategy}};
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
  for (const CrossoverChange& c : comparison.crossovers)
    j["crossovers"].push_back({{"target", c.where.target},
                               {"shape", c.where.shape},
                               {"dtype", c.where.dtype},
                               {"device", c.where.device},
                               {"mode", c.where.mode},
                               {"phase", c.where.phase},
                               {"strategy", c.where.strategy},
                               {"before", number(c.before)},
                               {"after", number(c.after)}});
  return j;
}

}  // namespace wide
