#pragma once
#include <cstdio>
#include <latch>
#include <nlohmann/json.hpp>
#include <string>

#include "app/explorer/driver.h"
#include "tests/app/explorer/null_platform.h"
#include "tests/data/store/stored.h"
#include "tests/scratch.h"

// A store with a sweep of every kind of trial, and the explorer on it without a window.
namespace wide {

/// A store's path in a folder of its own.
class StoreFile {
 public:
  std::string path(const std::string& name = "results.db") const { return folder_ / name; }

 private:
  Scratch folder_;
};

/// While this lives, all threads of `jobs` are taken: other jobs wait, and work that gets done is
/// done by the caller's own thread.
class OccupiedJobs {
 public:
  explicit OccupiedJobs(Jobs& jobs) {
    for (const char* key : {"occupied 1", "occupied 2"})
      jobs.start(key, [this]() -> Jobs::Result {
        begun_.count_down();
        end_.wait();
        ended_.count_down();
        return {};
      });
    begun_.wait();
  }
  ~OccupiedJobs() {
    end_.count_down();
    ended_.wait();
  }
  OccupiedJobs(const OccupiedJobs&) = delete;
  OccupiedJobs& operator=(const OccupiedJobs&) = delete;

 private:
  std::latch begun_{2}, end_{1}, ended_{2};
};

/// A case whose speedups and errors are known: strategy s has speedup s + N / 8, the third is wrong
/// from N=8 on, the fourth is unsupported, the fifth crashed.
inline Case shown_case(const std::string& target, int64_t n) {
  Case c = stored_case(n, static_cast<uint64_t>(n), 5);
  c.target = target;
  c.disturbed = false;
  for (size_t i = 0; i < c.trials.size(); ++i) {
    Trial& t = c.trials[i];
    const double value = static_cast<double>(i + 1) + static_cast<double>(n) / 8;
    t.strategy = t.timing.name = "s" + std::to_string(i + 1);
    t.chosen = i == 1;
    t.status = i == 2 && n >= 8 ? Status::incorrect
               : i == 3         ? Status::unsupported
               : i == 4         ? Status::crashed
                                : Status::ok;
    t.reason = t.status == Status::ok ? "" : "why it is " + std::string(to_string(t.status));
    t.speedup.reset();
    t.verdict.clear();
    t.correctness.reset();
    if (i >= 3) {
      t.timing = {};
      t.timing.name = t.strategy;
      t.timing.kind = "candidate";
      continue;
    }
    t.correctness =
        Correctness{1e-7 * value, 1e-7, 1e-5, true, true, t.status == Status::ok, "", ""};
    if (t.status == Status::incorrect) {
      t.correctness->max_rel = 0.25;
      continue;
    }
    t.speedup = Speedup{Interval{2 * value, 1.9 * value, 2.1 * value},
                        {value, 0.95 * value, 1.05 * value},
                        "threads"};
    t.verdict = "FASTER";
  }
  return c;
}

/// A complete sweep with these results; returns its number.
inline int64_t store_cases(const std::string& path, const StoredCases& plan,
                           const std::vector<Case>& results) {
  Store store = Store::create(path);
  const int64_t sweep = store.begin(plan);
  for (size_t i = 0; i < results.size(); ++i)
    store.add_case(sweep, static_cast<int64_t>(i), results[i]);
  store.finish(sweep, "complete", {});
  return sweep;
}

/// A sweep of `targets` over `ns`; returns its number.
inline int64_t store_sweep(const std::string& path, const std::vector<std::string>& targets,
                           const std::vector<int64_t>& ns, const std::string& name = "shown") {
  StoredCases plan = stored_plan(name, {});
  std::vector<Case> results;
  for (const std::string& target : targets)
    for (const int64_t n : ns) {
      plan.cases.push_back({target, "B16 D256", "f32", "cpu", "default", "forward", n, {"s1"}});
      results.push_back(shown_case(target, n));
    }
  return store_cases(path, plan, results);
}

/// A fusion of two models, and of four, which is incorrect.
inline FuseReport shown_fusion() {
  FuseReport report;
  report.model = "net.ts";
  report.device = "cpu";
  report.dtype = "f32";
  report.mode = "default";
  for (const int64_t n : {2, 4}) {
    FuseResult r;
    r.n = n;
    r.coverage = {{Way::strategy, 3}, {Way::per_model, 1}};
    r.fallbacks = {{5, "aten::odd", "no batching rule"}};
    r.speedup = Speedup{Interval{4, 3, 5}, {2, 1.5, 2.5}, "threads"};
    r.correctness.max_rel = 1e-7 * static_cast<double>(n);
    r.correctness.tolerance = 1e-3;
    r.correctness.pass = n == 2;
    r.correctness.failure = n == 2 ? "" : "why";
    r.chosen = "default";
    report.curve.push_back(r);
  }
  return report;
}

inline std::unique_ptr<Screen> screen_on(const std::string& path, Settings settings = {}) {
  return std::make_unique<Screen>(null_platform(settings.width, settings.height), path, settings);
}

}  // namespace wide
