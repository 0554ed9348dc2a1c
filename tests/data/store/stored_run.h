#pragma once
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/reports/run/run_fields.h"
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
inline RunReport stored_report(int64_t n, int64_t steps, const std::string& name = "digits",
                               const std::string& state = "running") {
  RunReport r;
  r.run = {"",    name,  "workbench train net.ts --data x.npz",
           state, "d",   "2026-01-01T00:00:00Z",
           steps, steps, 1.5};
  r.network = "net.ts";
  r.n = n;
  r.batch = 16;
  r.steps_per_epoch = 4;
  r.monitor = {"loss", false};
  r.memory.emplace().threads = 1;
  for (int64_t m = 0; m < n; ++m) {
    ModelReport& model = r.models.emplace_back();
    model.number = m;
    model.name = "m" + std::to_string(m);
    model.config = m / 3;
    model.seeds = {m, m, m};
    model.hyperparameters = {{"lr", 0.001 * std::pow(3.0, double(m / 3))}, {"weight_decay", 0.01}};
    const bool over = state == "complete";
    model.status = !over ? "running" : m == n - 1 ? "diverged" : m == n - 2 ? "stopped" : "trained";
    model.at_step = m == n - 1 ? 20 : m == n - 2 ? 30 : 0;
  }
  return r;
}
inline nlohmann::ordered_json stored_run(int64_t n, int64_t steps,
                                         const std::string& name = "digits",
                                         const std::string& state = "running") {
  return to_json(stored_report(n, steps, name, state));
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
