#pragma once
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/reports/report_json.h"
#include "data/store/store.h"

// Training runs that nobody trained, whose values are known.
namespace wide {

/// What model `m` has at evaluation `i` (from 0): no two models have the same, and the best one of
/// five is not the last.
inline double stored_loss(int64_t m, int64_t i) {
  return (1 + 0.37 * double(m * 7 % 11)) / (1 + 0.25 * double(i)) + 0.01 * double((m * 5 + i) % 3);
}

/// A run of `n` models, `n / 3` learning rates (at least one) with three seeds each; the last model
/// diverged at step 20 and the one before was stopped at step 30, in a run that is `complete`.
inline nlohmann::ordered_json stored_run(int64_t n, int64_t steps,
                                         const std::string& name = "digits",
                                         const std::string& state = "running") {
  using Document = nlohmann::ordered_json;
  Document run{{"schema", 1}, {"kind", "run"}};
  run["run"] = {
      {"id", ""},       {"name", name},   {"command", "workbench train net.ts --data x.npz"},
      {"state", state}, {"dir", "d"},     {"started", "2026-01-01T00:00:00Z"},
      {"step", steps},  {"steps", steps}, {"seconds", 1.5}};
  run["network"] = "net.ts";
  run["n"] = n;
  run["batch"] = 16;
  run["steps_per_epoch"] = 4;
  run["monitor"] = {{"name", "loss"}, {"more_is_better", false}};
  run["environment"] = to_json(Environment{});
  run["notes"] = Document::array();
  run["models"] = Document::array();
  for (int64_t m = 0; m < n; ++m) {
    const bool over = state == "complete";
    const std::string status = !over        ? "running"
                               : m == n - 1 ? "diverged"
                               : m == n - 2 ? "stopped"
                                            : "trained";
    run["models"].push_back(
        {{"model", m},
         {"name", "m" + std::to_string(m)},
         {"config", m / 3},
         {"fold", nullptr},
         {"seeds", {{"init", m}, {"order", m}, {"dropout", m}}},
         {"hyperparameters",
          {{"lr", 0.001 * std::pow(3.0, double(m / 3))}, {"weight_decay", 0.01}}},
         {"labels", Document::object()},
         {"status", status},
         {"at_step", m == n - 1   ? 20
                     : m == n - 2 ? 30
                                  : 0},
         {"best", nullptr},
         {"last", Document::object()},
         {"test", Document::object()}});
  }
  run["events"] = Document::array();
  run["history"] = Document::array();
  return run;
}

/// Evaluations `from` to before `to` at steps 10, 20, ... of all `n` models, those that ended left
/// out where `ends`.
inline nlohmann::ordered_json stored_rows(const std::string& run, int64_t n, int64_t from,
                                          int64_t to, bool ends = false) {
  using Document = nlohmann::ordered_json;
  Document rows = Document::array();
  for (int64_t i = from; i < to; ++i)
    for (int64_t m = 0; m < n; ++m) {
      const int64_t step = 10 * (i + 1);
      if (ends && ((m == n - 1 && step > 20) || (m == n - 2 && step > 30))) continue;
      rows.push_back({m, "loss", step, stored_loss(m, i)});
      rows.push_back({m, "train_loss", step, 0.5 * stored_loss(m, i)});
    }
  return {{"run", run}, {"rows", rows}, {"events", Document::array()}};
}

/// A complete run in the store at `path`; its number.
inline int64_t store_run(const std::string& path, int64_t n, int64_t evaluations,
                         const std::string& name = "digits") {
  Store store = Store::create(path);
  const std::string run = store.begin_run(stored_run(n, 10 * evaluations, name), "", 0);
  store.add_run_rows(stored_rows(run, n, 0, evaluations, true));
  store.end_run(run, stored_run(n, 10 * evaluations, name, "complete"));
  return std::stoll(run);
}

}  // namespace wide
