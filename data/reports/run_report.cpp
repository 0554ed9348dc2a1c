#include "data/reports/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>

#include "data/reports/report_json.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kResamples = 2000;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

/// Hyperparameters that are not the same for all models.
std::vector<std::string> varied(const Json& run) {
  std::vector<std::string> keys;
  const Json& models = run.at("models");
  for (const auto& [key, value] : models.at(0).at("hyperparameters").items())
    for (const Json& m : models)
      if (m.at("hyperparameters").at(key) != value) {
        keys.push_back(key);
        break;
      }
  return keys;
}

std::string table_line(const std::string& what, int64_t n, const std::string& values) {
  return fmt::format("  {:<40} n {:<4} {}\n", what, n, values);
}

/// One line, or a line for each metric where there is more to say of them than a number.
std::string config_text(const ConfigSummary& c) {
  const std::string name = config_name(c);
  size_t width = 0;
  bool numbers = true;
  for (const MetricSummary& m : c.metrics) {
    width = std::max(width, m.name.size());
    for (const auto& spread : {m.validation, m.test}) numbers &= !spread || spread->n == 1;
  }
  std::vector<std::string> values;
  if (c.pruned > 0 && c.n == 0) return table_line(name, 0, fmt::format("pruned: {}", c.pruned));
  for (const MetricSummary& m : c.metrics) {
    values.push_back(
        fmt::format("{:<{}} {}", m.name, numbers ? 0 : width, spread_text(m.validation)));
    if (m.test) values.back() += fmt::format("  test {}", spread_text(m.test));
  }
  if (c.pruned > 0)
    (numbers ? values.back() : values.front()) += fmt::format("  pruned: {}", c.pruned);
  const std::string next_line = "\n" + std::string(table_line("", 0, "").size() - 1, ' ');
  return table_line(name, c.n, fmt::format("{}", fmt::join(values, numbers ? " · " : next_line)));
}

}  // namespace

std::optional<double> number_at(const Json& json, const std::string& key) {
  const auto it = json.find(key);
  if (json.is_null() || it == json.end() || !it->is_number()) return std::nullopt;
  // In a file an infinite number is null, so that the same is said before it is written.
  return std::isfinite(it->get<double>()) ? std::optional(it->get<double>()) : std::nullopt;
}

bool pruned(const Json& model) { return model.at("status") == "pruned"; }

/// As those of the run's own state.
int64_t answering_models(const Json& run) {
  int64_t best = 0, whole = 0;
  for (const Json& model : run.at("models")) {
    if (pruned(model)) continue;
    best += !model.at("best").is_null();
    whole += model.at("status") != "diverged";
  }
  return best > 0 ? best : whole;
}

std::string config_name(const ConfigSummary& c) {
  std::string name;
  for (const auto& [key, value] : c.hyperparameters)
    name += fmt::format("{}{}={:.4g}", name.empty() ? "" : " ", key, value);
  return name.empty() ? "all models" : name;
}

std::string statuses_text(const Json& run) {
  std::map<std::string, int64_t> statuses;
  for (const Json& m : run.at("models")) ++statuses[m.at("status").get<std::string>()];
  std::string text;
  for (const auto& [status, count] : statuses)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, status);
  return text;
}

Json to_json(const std::optional<Spread>& s) {
  if (!s) return nullptr;
  return {{"n", s->n},
          {"mean", s->mean},
          {"sd", s->n > 1 ? Json(s->sd) : Json(nullptr)},
          {"iqm", s->iqm},
          {"ci95", {s->low, s->high}}};
}

std::string spread_text(const std::optional<Spread>& s) {
  if (!s) return "-";
  if (s->n == 1) return fmt::format("{:.4g}", s->mean);
  return fmt::format("{:.4g} ± {:.2g} [{:.4g}, {:.4g}], middle half {:.4g}", s->mean, s->sd, s->low,
                     s->high, s->iqm);
}

std::optional<Spread> spread_of(std::vector<double> values) {
  values.erase(std::remove_if(values.begin(), values.end(), [](double v) { return std::isnan(v); }),
               values.end());
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  Spread s;
  s.n = static_cast<int64_t>(values.size());
  s.mean = mean_of(values);
  double squares = 0;
  for (const double v : values) squares += (v - s.mean) * (v - s.mean);
  s.sd = s.n > 1 ? std::sqrt(squares / double(s.n - 1)) : 0;
  // The middle half, values at its border counted in part.
  const double quarter = double(s.n) / 4;
  double sum = 0, weight = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double begin = std::max(double(i), quarter),
                 end = std::min(double(i) + 1, double(s.n) - quarter);
    if (end > begin) {
      sum += values[i] * (end - begin);
      weight += end - begin;
    }
  }
  s.iqm = sum / weight;
  std::mt19937_64 random(0);  // the same report each time
  std::vector<double> means;
  for (int r = 0; r < kResamples && s.n > 1; ++r) {
    double total = 0;
    for (int64_t i = 0; i < s.n; ++i) total += values[random() % values.size()];
    means.push_back(total / double(s.n));
  }
  std::sort(means.begin(), means.end());
  s.low = means.empty() ? s.mean : means[kResamples * 25 / 1000];
  s.high = means.empty() ? s.mean : means[kResamples * 975 / 1000 - 1];
  return s;
}

void check_run(const Json& run, const std::string& file) {
  if (run.is_object() && run.value("kind", "") == "run" && run.value("schema", 0) == kRunSchema &&
      run.contains("models") && run.contains("history") && !run.at("models").empty())
    return;
  fail("[{}] report: got another document, expected a training run's; try another file",
       printable(file));
}

std::vector<std::string> metric_names(const Json& run) {
  const std::string monitored = run.at("monitor").at("name");
  std::set<std::string> others;
  for (const Json& m : run.at("models"))
    for (const char* part : {"best", "test"})
      for (const auto& [name, value] : m.at(part).items()) others.insert(name);
  // They stand beside the metrics of a model's best evaluation.
  for (const std::string& name : {monitored, std::string("step"), std::string("train_loss")})
    others.erase(name);
  std::vector<std::string> names{monitored};
  names.insert(names.end(), others.begin(), others.end());
  return names;
}

std::vector<ConfigSummary> by_config(const Json& run, const std::vector<std::string>& keys) {
  const Json& models = run.at("models");
  for (const std::string& key : keys)
    if (!models.at(0).at("hyperparameters").contains(key)) {
      std::vector<std::string> known;
      for (const auto& [name, value] : models.at(0).at("hyperparameters").items())
        known.push_back(name);
      fail("[--by] key: got {}, expected one of {}; try --by lr", printable(key),
           listing(known, 20));
    }
  const std::vector<std::string> by = keys.empty() ? varied(run) : keys;
  const std::vector<std::string> metrics = metric_names(run);
  struct Group {
    ConfigSummary summary;
    std::map<std::string, std::vector<double>> values, tests;  // by metric
  };
  std::vector<Group> groups;
  for (const Json& m : models) {
    std::map<std::string, double> hyper;
    for (const std::string& key : by) hyper[key] = m.at("hyperparameters").at(key).get<double>();
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const Group& g) { return g.summary.hyperparameters == hyper; });
    if (it == groups.end()) {
      groups.push_back({});
      it = groups.end() - 1;
      it->summary.hyperparameters = hyper;
    }
    ++it->summary.statuses[m.at("status").get<std::string>()];
    // Its best value is of fewer steps than the others had: no mean is of both.
    ++(pruned(m) ? it->summary.pruned : it->summary.n);
    if (pruned(m)) continue;
    for (const std::string& metric : metrics) {
      if (const auto v = number_at(m.at("best"), metric)) it->values[metric].push_back(*v);
      if (const auto v = number_at(m.at("test"), metric)) it->tests[metric].push_back(*v);
    }
  }
  std::vector<ConfigSummary> all;
  for (Group& g : groups) {
    for (const std::string& metric : metrics)
      g.summary.metrics.push_back(
          {metric, spread_of(g.values[metric]), spread_of(g.tests[metric])});
    all.push_back(std::move(g.summary));
  }
  const bool more = run.at("monitor").at("more_is_better");
  std::stable_sort(all.begin(), all.end(), [&](const ConfigSummary& x, const ConfigSummary& y) {
    const auto &a = x.monitored().validation, &b = y.monitored().validation;
    if (!a || !b) return a.has_value() && !b.has_value();
    return more ? a->mean > b->mean : a->mean < b->mean;
  });
  return all;
}

Json to_json(const ConfigSummary& c) {
  Json json = {{"hyperparameters", c.hyperparameters}, {"metric", c.monitored().name}};
  json["n"] = c.n;
  json["pruned"] = c.pruned;
  const Json value = to_json(c.monitored().validation);
  for (const char* key : {"mean", "sd", "iqm", "ci95"})
    json[key] = value.is_null() ? Json(nullptr) : value.at(key);
  json["test"] = to_json(c.monitored().test);
  for (const MetricSummary& m : c.metrics)
    json["metrics"][m.name] = {{"validation", to_json(m.validation)}, {"test", to_json(m.test)}};
  json["statuses"] = c.statuses;
  return json;
}

std::string run_text(const Json& run, const std::vector<std::string>& keys) {
  const Json& head = run.at("run");
  const auto configs = by_config(run, keys);
  std::string text = fmt::format(
      "{} · {} models · step {} of {} · {} · {}\n", printable(run.at("network").get<std::string>()),
      run.at("n").get<int64_t>(), head.at("step").get<int64_t>(), head.at("steps").get<int64_t>(),
      time_text(head.at("seconds").get<double>() * 1e9), statuses_text(run));
  const std::vector<std::string> metrics = metric_names(run);
  if (metrics.size() > 1 && configs[0].monitored().validation)
    text += fmt::format("  metrics of each model's evaluation with the best {}:\n", metrics[0]);
  for (const ConfigSummary& c : configs) text += config_text(c);
  if (std::any_of(configs.begin(), configs.end(), [](const auto& c) { return c.pruned > 0; }))
    text += "  pruned models count in no mean, nor in the mean answer\n";
  if (run.contains("ensemble") && run.at("models").size() > 1)
    for (const auto& [rows, values] : run.at("ensemble").items()) {
      std::vector<std::string> said;
      for (const std::string& metric : metrics)
        if (const auto value = number_at(values, metric))
          said.push_back(fmt::format("{} {:.4g}", metric, *value));
      if (!said.empty())
        text += table_line("their mean answer", answering_models(run),
                           fmt::format("{} of the {} rows", fmt::join(said, " · "), rows));
    }
  for (const Json& note : run.at("notes"))
    text += fmt::format("  {}\n", printable(note.get<std::string>(), 400));
  return text;
}

}  // namespace wide
