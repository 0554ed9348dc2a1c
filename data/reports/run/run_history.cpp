#include "data/reports/run/run_history.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

namespace wide {
namespace {

/// In a running run all models have the status `running`; their events say which have ended.
void take_events(const std::vector<RunEvent>& events, RunHistory* run) {
  static constexpr const char* kEnds[] = {"diverged", "stopped", "pruned"};
  for (const RunEvent& event : events) {
    if (event.model < 0 || event.model >= static_cast<int64_t>(run->models.size())) continue;
    ModelReport& model = run->models[static_cast<size_t>(event.model)];
    if (model.status != "running") continue;
    for (const char* end : kEnds)
      if (event.what.find(std::string(" ") + end + " at step") != std::string::npos) {
        model.status = end;
        model.at_step = event.step;
      }
  }
}

}  // namespace

const std::vector<RunCurve>* RunHistory::metric(const std::string& metric_name) const {
  const auto it = metrics.find(metric_name);
  return it == metrics.end() ? nullptr : &it->second;
}

int64_t RunHistory::last_step() const {
  int64_t last = 0;
  for (const auto& [metric_name, curves] : metrics)
    for (const RunCurve& curve : curves)
      if (!curve.steps.empty()) last = std::max(last, curve.steps.back());
  return last;
}

void RunHistory::add(const std::string& metric_name, int64_t model, int64_t step, double value) {
  if (model < 0 || model >= static_cast<int64_t>(models.size())) return;
  std::vector<RunCurve>& curves = metrics[metric_name];
  curves.resize(models.size());
  RunCurve& curve = curves[static_cast<size_t>(model)];
  if (!curve.steps.empty() && step <= curve.steps.back()) return;
  curve.steps.push_back(step);
  curve.values.push_back(value);
}

std::vector<std::string> differing_hyperparameters(const RunHistory& run) {
  std::map<std::string, std::set<double>> values;
  for (const ModelReport& model : run.models)
    for (const auto& [key, value] : model.hyperparameters) values[key].insert(value);
  std::vector<std::string> keys;
  for (const auto& [key, all] : values)
    if (all.size() > 1) keys.push_back(key);
  return keys;
}

RunHistory run_head(const RunReport& report) {
  RunHistory run;
  run.name = report.run.name;
  run.state = report.run.state;
  run.command = report.run.command;
  run.dir = report.run.dir;
  run.steps = report.run.steps;
  run.network = report.network;
  run.steps_per_epoch = std::max(1.0, static_cast<double>(report.steps_per_epoch));
  run.monitor = report.monitor.name;
  run.more_is_better = report.monitor.more_is_better;
  run.models = report.models;
  take_events(report.events, &run);
  return run;
}

RunHistory run_history(const RunReport& report) {
  RunHistory run = run_head(report);
  const std::string& id = report.run.id;
  std::from_chars(id.data(), id.data() + id.size(), run.id);
  for (const RunEvaluation& row : report.history) {
    if (row.seconds >= 0) run.seconds[row.step] = row.seconds;
    const auto add = [&](const std::string& metric, const std::vector<double>& values) {
      for (size_t m = 0; m < values.size(); ++m)
        if (!std::isnan(values[m])) run.add(metric, static_cast<int64_t>(m), row.step, values[m]);
    };
    add("train_loss", row.train_loss);
    for (const auto& [metric, values] : row.values) add(metric, values);
  }
  return run;
}

std::string compared_metric(const RunHistory& run) {
  return run.metric(run.monitor) ? run.monitor : "train_loss";
}

bool larger_is_better(const RunHistory& run) {
  return run.more_is_better && compared_metric(run) == run.monitor;
}

std::optional<BestValue> best_value(const RunHistory& run, size_t model, const std::string& metric,
                                    bool larger) {
  const std::vector<RunCurve>* curves = run.metric(metric);
  if (!curves) return std::nullopt;
  const RunCurve& curve = curves->at(model);
  std::optional<BestValue> best;
  for (size_t i = 0; i < curve.values.size(); ++i) {
    const double value = curve.values[i];
    if (!std::isfinite(value)) continue;
    if (!best || (larger ? value > best->value : value < best->value))
      best = BestValue{value, curve.steps[i]};
  }
  return best;
}

}  // namespace wide
