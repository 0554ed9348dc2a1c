#include "data/store/runs/run_reader.h"

#include <fmt/format.h>

#include "data/reports/run/run_fields.h"
#include "data/store/rows.h"
#include "data/store/runs/runs.h"
#include "data/store/sweeps/sweeps.h"

namespace wide {
namespace {

/// The run without its history; nullopt if there is no such run.
std::optional<RunHistory> head_of(Connection& connection, int64_t run) {
  Query head(connection, "SELECT more, state, owner FROM run WHERE id = ?", run);
  if (!head.step()) return std::nullopt;
  Json document = stored_json(head.text(0));
  document["run"]["state"] = shown_state(head.text(1), head.text(2));
  add_models_and_events(connection, run, &document);
  RunReport report;
  read_fields(document, fmt::format("run {}", run), UnknownFields::ignored, [&](Fields& fields) {
    describe_head(fields, report);
    describe_models(fields, report);
  });
  return run_head(report);
}

void read_all(Connection& connection, RunHistory* run) {
  // In the order of the table's key, so that SQLite need not sort.
  Query rows(connection,
             "SELECT metric, model, step, value FROM run_metric WHERE run = ? "
             "ORDER BY model, metric, step",
             run->id);
  while (rows.step())
    run->add(rows.text(0), rows.integer(1), rows.integer(2), rows.at(3).getDouble());
}

struct NewValue {
  std::string metric;
  int64_t model = 0, step = 0;
  double value = 0;
};

/// The values after the last step of each curve of `before`.
std::vector<NewValue> read_new(Connection& connection, const RunHistory& before,
                               const std::vector<std::string>& metrics) {
  std::vector<NewValue> values;
  for (const std::string& metric : metrics)
    for (size_t m = 0; m < before.models.size(); ++m) {
      const std::vector<RunCurve>* curves = before.metric(metric);
      const int64_t last =
          curves && !(*curves)[m].steps.empty() ? (*curves)[m].steps.back() : int64_t{-1};
      const auto model = static_cast<int64_t>(m);
      Query rows(connection,
                 "SELECT step, value FROM run_metric WHERE run = ? AND model = ? AND metric = ? "
                 "AND step > ? ORDER BY step",
                 before.id, model, metric, last);
      while (rows.step())
        values.push_back({metric, model, rows.integer(0), rows.at(1).getDouble()});
    }
  return values;
}

/// Metrics of the first model that has any, as all models have the same.
std::vector<std::string> metrics_of(Connection& connection, int64_t run) {
  std::vector<std::string> metrics;
  Query rows(connection,
             "SELECT DISTINCT metric FROM run_metric WHERE run = ? AND model = (SELECT min(model) "
             "FROM run_metric WHERE run = ?)",
             run, run);
  while (rows.step()) metrics.push_back(rows.text(0));
  return metrics;
}

void read_times(Connection& connection, RunHistory* run) {
  Query rows(connection, "SELECT step, seconds FROM run_time WHERE run = ?", run->id);
  while (rows.step()) run->seconds[rows.integer(0)] = rows.at(1).getDouble();
}

/// Whether the last known value of a curve is gone, as a resume deletes newer values.
bool was_cut(Connection& connection, const RunHistory& before) {
  for (const auto& [metric, curves] : before.metrics)
    for (size_t m = 0; m < curves.size(); ++m) {
      if (curves[m].steps.empty()) continue;
      Query row(connection,
                "SELECT 1 FROM run_metric WHERE run = ? AND model = ? AND metric = ? AND step = ? "
                "AND value = ?",
                before.id, static_cast<int64_t>(m), metric, curves[m].steps.back(),
                curves[m].values.back());
      if (!row.step()) return true;
    }
  return false;
}

bool same_models(const RunHistory& a, const RunHistory& b) {
  if (a.state != b.state || a.models.size() != b.models.size()) return false;
  for (size_t m = 0; m < a.models.size(); ++m)
    if (a.models[m].status != b.models[m].status) return false;
  return true;
}

}  // namespace

RunReader::RunReader(const std::string& path)
    : connection_(std::make_unique<Connection>(path, StoreOptions{}, Access::read)) {}

RunReader::~RunReader() = default;

std::vector<RunRow> RunReader::runs(int64_t limit) {
  return connection_->read([&] { return list_runs(*connection_, limit, 0); });
}

std::shared_ptr<const RunHistory> RunReader::read(int64_t id,
                                                  std::shared_ptr<const RunHistory> before) {
  return connection_->read([&]() -> std::shared_ptr<const RunHistory> {
    std::optional<RunHistory> head = head_of(*connection_, id);
    if (!head) return nullptr;
    auto run = std::make_shared<RunHistory>(std::move(*head));
    run->id = id;
    read_times(*connection_, run.get());
    if (!before || before->id != id || before->models.size() != run->models.size() ||
        was_cut(*connection_, *before)) {
      read_all(*connection_, run.get());
      return run;
    }
    const auto values = read_new(*connection_, *before, metrics_of(*connection_, id));
    if (values.empty() && same_models(*before, *run)) return before;
    run->metrics = before->metrics;
    for (const NewValue& v : values) run->add(v.metric, v.model, v.step, v.value);
    return run;
  });
}

}  // namespace wide
