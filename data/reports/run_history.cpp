#include "data/reports/run_history.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace wide {
namespace {

using HistoryJson = nlohmann::ordered_json;

HistoryModel model_of(const HistoryJson& json) {
  HistoryModel model;
  model.number = json.at("model").get<int64_t>();
  if (json.at("fold").is_number()) model.fold = json.at("fold").get<int64_t>();
  for (const auto& [key, value] : json.at("hyperparameters").items())
    if (value.is_number()) model.hyperparameters[key] = value.get<double>();
  model.status = json.at("status").get<std::string>();
  model.at_step = json.at("at_step").get<int64_t>();
  if (json.contains("test") && json.at("test").is_object())
    for (const auto& [key, value] : json.at("test").items())
      if (value.is_number()) model.test[key] = value.get<double>();
  return model;
}

/// Models of a run that goes on have the status `running`: their events say who has ended.
void take_events(const HistoryJson& events, RunHistory* run) {
  static constexpr const char* kEnds[] = {"diverged", "stopped", "pruned"};
  for (const HistoryJson& event : events) {
    if (!event.at("model").is_number()) continue;
    const auto number = event.at("model").get<size_t>();
    if (number >= run->models.size() || run->models[number].status != "running") continue;
    const std::string what = event.at("what").get<std::string>();
    for (const char* end : kEnds)
      if (what.find(std::string(" ") + end + " at step") != std::string::npos) {
        run->models[number].status = end;
        run->models[number].at_step = event.at("step").get<int64_t>();
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
  for (const HistoryModel& model : run.models)
    for (const auto& [key, value] : model.hyperparameters) values[key].insert(value);
  std::vector<std::string> keys;
  for (const auto& [key, all] : values)
    if (all.size() > 1) keys.push_back(key);
  return keys;
}

RunHistory run_head(const HistoryJson& json) {
  RunHistory run;
  const HistoryJson& head = json.at("run");
  run.name = head.at("name").get<std::string>();
  run.state = head.at("state").get<std::string>();
  run.command = head.value("command", "");
  run.dir = head.value("dir", "");
  run.steps = head.at("steps").get<int64_t>();
  run.network = json.at("network").get<std::string>();
  run.steps_per_epoch = std::max(1.0, json.value("steps_per_epoch", 1.0));
  run.monitor = json.at("monitor").at("name").get<std::string>();
  run.more_is_better = json.at("monitor").at("more_is_better").get<bool>();
  for (const HistoryJson& model : json.at("models")) run.models.push_back(model_of(model));
  take_events(json.at("events"), &run);
  return run;
}

RunHistory run_history(const HistoryJson& json) {
  RunHistory run = run_head(json);
  const std::string id = json.at("run").value("id", "");
  std::from_chars(id.data(), id.data() + id.size(), run.id);
  for (const HistoryJson& row : json.at("history")) {
    const auto step = row.at("step").get<int64_t>();
    if (row.contains("seconds") && row.at("seconds").is_number())
      run.seconds[step] = row.at("seconds").get<double>();
    for (const auto& [metric, values] : row.items()) {
      if (!values.is_array()) continue;
      for (size_t m = 0; m < values.size(); ++m)
        if (values[m].is_number())
          run.add(metric, static_cast<int64_t>(m), step, values[m].get<double>());
    }
  }
  return run;
}

std::string compared_metric(const RunHistory& run) {
  return run.metric(run.monitor) ? run.monitor : "train_loss";
}

std::optional<BestValue> best_value(const RunHistory& run, size_t model) {
  const std::string name = compared_metric(run);
  const std::vector<RunCurve>* curves = run.metric(name);
  if (!curves) return std::nullopt;
  const bool more = name == run.monitor && run.more_is_better;
  const RunCurve& curve = curves->at(model);
  std::optional<BestValue> best;
  for (size_t i = 0; i < curve.values.size(); ++i) {
    const double value = curve.values[i];
    if (!std::isfinite(value)) continue;
    if (!best || (more ? value > best->value : value < best->value))
      best = BestValue{value, curve.steps[i]};
  }
  return best;
}

}  // namespace wide
