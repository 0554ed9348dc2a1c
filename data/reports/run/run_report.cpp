#include "data/reports/run/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "data/bytes/csv.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

constexpr int kResamples = 2000;

double hyperparameter(const ModelReport& model, const std::string& key) {
  if (const auto value = setting_of(model, key)) return *value;
  fail(
      "[run] models: got no {} of model {}, expected the same hyperparameters of all; try a report "
      "that the workbench wrote",
      printable(key), model.number);
}

/// Hyperparameters that differ between models.
std::vector<std::string> varied(const RunReport& run) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : run.models.at(0).hyperparameters)
    for (const ModelReport& m : run.models)
      if (hyperparameter(m, key) != value) {
        keys.push_back(key);
        break;
      }
  return keys;
}

std::string table_line(const std::string& what, int64_t n, const std::string& values) {
  return fmt::format("  {:<40} n {:<4} {}\n", what, n, values);
}

/// A configuration as one line, or with a line for each metric if it has several models.
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
        fmt::format("{:<{}} {}", m.name, numbers ? 0 : width, spread_text_of(m.validation, c.n)));
    if (m.test) values.back() += fmt::format("  test {}", spread_text_of(m.test, c.n));
  }
  if (c.pruned > 0)
    (numbers ? values.back() : values.front()) += fmt::format("  pruned: {}", c.pruned);
  const std::string next_line = "\n" + std::string(table_line("", 0, "").size() - 1, ' ');
  return table_line(name, c.n, fmt::format("{}", fmt::join(values, numbers ? " · " : next_line)));
}

}  // namespace

std::optional<double> number_at(const std::map<std::string, double>& values,
                                const std::string& key) {
  const auto it = values.find(key);
  // Files hold null for infinite numbers, so those count as missing here too.
  if (it == values.end() || !std::isfinite(it->second)) return std::nullopt;
  return it->second;
}

std::optional<double> setting_of(const ModelReport& model, const std::string& key) {
  if (const auto it = model.hyperparameters.find(key); it != model.hyperparameters.end())
    return it->second;
  const auto label = model.labels.find(key);
  double number = 0;
  if (label == model.labels.end() || !parse_number(label->second, &number)) return std::nullopt;
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::optional<double> best_at(const ModelReport& model, const std::string& metric) {
  return model.best ? number_at(model.best->values, metric) : std::nullopt;
}

/// Counts the models with best weights, or those that did not diverge if none has any.
int64_t answering_models(const RunReport& run) {
  int64_t best = 0, whole = 0;
  for (const ModelReport& model : run.models) {
    if (model.pruned()) continue;
    best += model.best.has_value();
    whole += model.status != "diverged";
  }
  return best > 0 ? best : whole;
}

std::vector<std::pair<std::string, std::map<std::string, double>>> answers_of(
    const MeanAnswer& answer) {
  return {{"validation", answer.validation}, {"test", answer.test}};
}

std::string config_name(const ConfigSummary& c) {
  std::string name;
  for (const auto& [key, value] : c.hyperparameters)
    name += fmt::format("{}{}={}", name.empty() ? "" : " ", key, value);
  return name.empty() ? "all models" : name;
}

std::string statuses_text(const RunReport& run) {
  std::map<std::string, int64_t> statuses;
  for (const ModelReport& m : run.models) ++statuses[m.status];
  std::string text;
  for (const auto& [status, count] : statuses)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, status);
  return text;
}

std::string spread_text(const std::optional<Spread>& s, bool middle_half) {
  if (!s) return "-";
  if (s->n == 1) return fmt::format("{:.4g}", s->mean);
  return fmt::format("{:.4g} ± {:.2g} [{:.4g}, {:.4g}]", s->mean, s->sd, s->low, s->high) +
         (middle_half ? fmt::format(", middle half {:.4g}", s->iqm) : "");
}

std::string spread_text_of(const std::optional<Spread>& s, int64_t models, bool middle_half) {
  return spread_text(s, middle_half) + (s && s->n != models ? fmt::format(" (n {})", s->n) : "");
}

std::optional<Spread> spread_of(std::vector<double> values) {
  std::erase_if(values, [](double v) { return std::isnan(v); });
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  Spread s;
  s.n = static_cast<int64_t>(values.size());
  s.mean = std::accumulate(values.begin(), values.end(), 0.0) / double(s.n);
  double squares = 0;
  for (const double v : values) squares += (v - s.mean) * (v - s.mean);
  s.sd = s.n > 1 ? std::sqrt(squares / double(s.n - 1)) : 0;
  // The mean of the middle half, in which values at its ends count partly.
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
  std::mt19937_64 random(0);  // fixed seed: the same report each time
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

std::vector<std::string> metric_names(const RunReport& run) {
  const std::string& monitored = run.monitor.name;
  std::set<std::string> others;
  for (const ModelReport& m : run.models) {
    if (m.best)
      for (const auto& [name, value] : m.best->values) others.insert(name);
    for (const auto& [name, value] : m.test) others.insert(name);
  }
  others.erase(monitored);
  others.erase("train_loss");  // shown beside the metrics of the best evaluation
  std::vector<std::string> names{monitored};
  names.insert(names.end(), others.begin(), others.end());
  return names;
}

std::vector<ConfigSummary> by_config(const RunReport& run, const std::vector<std::string>& keys) {
  const std::map<std::string, double>& first = run.models.at(0).hyperparameters;
  for (const std::string& key : keys) {
    const auto has_label = [&](const ModelReport& m) { return m.labels.count(key) > 0; };
    const bool label = std::ranges::any_of(run.models, has_label);
    const auto is_number = [&](const ModelReport& m) { return setting_of(m, key).has_value(); };
    if (!first.count(key) && !(label && std::ranges::all_of(run.models, is_number))) {
      std::vector<std::string> known;
      for (const auto& [name, value] : first) known.push_back(name);
      fail("[--by] key: got {}{}, expected one of {}; try --by lr", printable(key),
           label ? ", a label of text" : "", listing(known, 20));
    }
  }
  const std::vector<std::string> by = keys.empty() ? varied(run) : keys;
  const std::vector<std::string> metrics = metric_names(run);
  struct Group {
    ConfigSummary summary;
    std::map<std::string, std::vector<double>> values, tests;  // by metric
  };
  std::vector<Group> groups;
  for (const ModelReport& m : run.models) {
    std::map<std::string, double> hyper;
    for (const std::string& key : by) hyper[key] = hyperparameter(m, key);
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const Group& g) { return g.summary.hyperparameters == hyper; });
    if (it == groups.end()) {
      groups.push_back({});
      it = groups.end() - 1;
      it->summary.hyperparameters = hyper;
    }
    ++it->summary.statuses[m.status];
    // Pruned models trained for fewer steps, so they are left out of the means.
    ++(m.pruned() ? it->summary.pruned : it->summary.n);
    if (m.pruned()) continue;
    for (const std::string& metric : metrics) {
      if (const auto v = best_at(m, metric)) it->values[metric].push_back(*v);
      if (const auto v = number_at(m.test, metric)) it->tests[metric].push_back(*v);
    }
  }
  std::vector<ConfigSummary> all;
  for (Group& g : groups) {
    for (const std::string& metric : metrics)
      g.summary.metrics.push_back(
          {metric, spread_of(g.values[metric]), spread_of(g.tests[metric])});
    all.push_back(std::move(g.summary));
  }
  const bool more = run.monitor.more_is_better;
  std::stable_sort(all.begin(), all.end(), [&](const ConfigSummary& x, const ConfigSummary& y) {
    const auto &a = x.monitored().validation, &b = y.monitored().validation;
    if (!a || !b) return a.has_value() && !b.has_value();
    return more ? a->mean > b->mean : a->mean < b->mean;
  });
  return all;
}

bool any_pruned(const std::vector<ConfigSummary>& configs) {
  return std::any_of(configs.begin(), configs.end(), [](const auto& c) { return c.pruned > 0; });
}

std::string run_text(const RunReport& run, const std::vector<std::string>& keys) {
  const auto configs = by_config(run, keys);
  std::string text = fmt::format("{} · {} models · step {} of {} · {} · {}\n",
                                 printable(run.network), run.n, run.run.step, run.run.steps,
                                 time_text(run.run.seconds * 1e9), statuses_text(run));
  const std::vector<std::string> metrics = metric_names(run);
  if (metrics.size() > 1 && configs[0].monitored().validation)
    text += fmt::format("  metrics of each model's evaluation with the best {}:\n", metrics[0]);
  for (const ConfigSummary& c : configs) text += config_text(c);
  if (any_pruned(configs))
    text += "  pruned models are left out of the means and of the mean answer\n";
  if (run.models.size() > 1)
    for (const auto& [rows, values] : answers_of(run.ensemble)) {
      std::vector<std::string> said;
      for (const std::string& metric : metrics)
        if (const auto value = number_at(values, metric))
          said.push_back(fmt::format("{} {:.4g}", metric, *value));
      if (!said.empty())
        text += table_line("their mean answer", answering_models(run),
                           fmt::format("{} of the {} rows", fmt::join(said, " · "), rows));
    }
  for (const std::string& note : run.notes) text += fmt::format("  {}\n", printable(note, 400));
  return text;
}

}  // namespace wide
