#include "data/reports/run/run_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "data/reports/run/run_report.h"

namespace wide {
namespace {

constexpr size_t kLabelled = 5;

/// The models of one run that differ only in seed and fold.
struct Configuration {
  size_t run = 0;
  std::string name;
  std::vector<size_t> models;
  double best = 0;  // the median of its models' best values
  bool known = false;
};

bool is_shown(const RunFigureOptions& options, size_t run, size_t model) {
  return run >= options.shown.size() || options.shown[run].empty() || options.shown[run][model];
}

double along_of(const RunHistory& run, const std::string& along, int64_t step) {
  if (along == "epoch") return double(step) / run.steps_per_epoch;
  if (along != "seconds") return double(step);
  const auto it = run.seconds.find(step);
  return it == run.seconds.end() ? std::nan("") : it->second;
}

std::vector<Point> points_of(const RunHistory& run, const RunCurve& curve,
                             const std::string& along) {
  std::vector<Point> points;
  points.reserve(curve.steps.size());
  for (size_t i = 0; i < curve.steps.size(); ++i)
    if (const double x = along_of(run, along, curve.steps[i]); !std::isnan(x))
      points.push_back({x, curve.values[i]});
  return points;
}

/// A model's values of hyperparameters; nullopt for those that it does not have.
std::vector<std::optional<double>> values_of_keys(const ModelReport& model,
                                                  const std::vector<std::string>& keys) {
  std::vector<std::optional<double>> values;
  for (const std::string& key : keys) values.push_back(setting_of(model, key));
  return values;
}

/// The configurations of all runs, the best ones first by the first run's compared metric.
std::vector<Configuration> configurations_of(const Runs& runs, const RunFigureOptions& options) {
  std::vector<Configuration> all;
  const std::string compared = compared_metric(*runs[0]);
  const bool larger = larger_is_better(*runs[0]);
  for (size_t r = 0; r < runs.size(); ++r) {
    const RunHistory& run = *runs[r];
    const std::vector<std::string> keys =
        options.by.empty() ? differing_hyperparameters(run) : options.by;
    std::map<std::vector<std::optional<double>>, Configuration> by_values;
    for (size_t m = 0; m < run.models.size(); ++m) {
      if (!is_shown(options, r, m)) continue;
      std::string name = group_name(run.models[m], keys);
      if (runs.size() > 1) name = fmt::format("run {} {}: {}", run.id, run.name, name);
      Configuration& one = by_values[values_of_keys(run.models[m], keys)];
      one.name = std::move(name);
      one.run = r;
      one.models.push_back(m);
    }
    for (auto& [values, one] : by_values) {
      std::vector<double> best;
      for (const size_t m : one.models)
        if (const auto value = best_value(run, m, compared, larger)) best.push_back(value->value);
      std::sort(best.begin(), best.end());
      one.known = !best.empty();
      if (one.known) one.best = quantile_of(best, 0.5);
      all.push_back(std::move(one));
    }
  }
  std::stable_sort(all.begin(), all.end(), [&](const Configuration& a, const Configuration& b) {
    if (a.known != b.known) return a.known;
    return a.known && (larger ? a.best > b.best : a.best < b.best);
  });
  return all;
}

/// The quartiles, at each x of any line, of the lines that have a value there.
void take_quartiles(const std::vector<std::vector<Point>>& lines, double smoothing,
                    CurveGroup* group) {
  std::map<double, std::vector<double>> at;
  for (const std::vector<Point>& line : lines)
    for (const Point& point : line)
      if (std::isfinite(point.y)) at[point.x].push_back(point.y);
  for (auto& [x, values] : at) {
    std::sort(values.begin(), values.end());
    group->low.push_back({x, quantile_of(values, 0.25)});
    group->median.push_back({x, quantile_of(values, 0.5)});
    group->high.push_back({x, quantile_of(values, 0.75)});
  }
  if (smoothing <= 0) return;
  group->raw = group->median;
  for (std::vector<Point>* line : {&group->low, &group->median, &group->high})
    *line = smoothed(*line, smoothing);
}

/// Adds the lines and the quartiles of one configuration.
void add_configuration(const Runs& runs, const RunFigureOptions& options, const Configuration& one,
                       const std::string& metric, const Colour& colour, CurvesFigure* figure) {
  const RunHistory& run = *runs[one.run];
  const std::vector<RunCurve>* curves = run.metric(metric);
  if (!curves) return;
  CurveGroup group;
  group.name =
      one.models.size() > 1 ? fmt::format("{} ({} models)", one.name, one.models.size()) : one.name;
  group.colour = colour;
  group.dashed = metric == "train_loss";
  group.models = one.models.size();
  std::vector<std::vector<Point>> raw;
  for (const size_t m : one.models) {
    CurveLine line;
    line.key = curve_key(one.run, m);
    line.name = runs.size() > 1 ? fmt::format("run {} model {}", run.id, run.models[m].number)
                                : fmt::format("model {}", run.models[m].number);
    line.group = figure->groups.size();
    line.dashed = group.dashed;
    const std::string& status = run.models[m].status;
    line.end = status == "diverged"                        ? CurveEnd::diverged
               : status == "stopped" || status == "pruned" ? CurveEnd::stopped
                                                           : CurveEnd::none;
    raw.push_back(points_of(run, (*curves)[m], options.along));
    line.points = raw.back();
    if (options.smoothing > 0) {
      line.raw = line.points;
      line.points = smoothed(line.points, options.smoothing);
    }
    figure->lines.push_back(std::move(line));
  }
  take_quartiles(raw, options.smoothing, &group);
  figure->groups.push_back(std::move(group));
}

/// Labels the shown models with the best values of the first run's compared metric.
void label_best(const Runs& runs, CurvesFigure* figure) {
  const std::string compared = compared_metric(*runs[0]);
  const bool larger = larger_is_better(*runs[0]);
  std::vector<std::pair<double, size_t>> order;
  std::set<int64_t> seen;
  for (size_t i = 0; i < figure->lines.size(); ++i) {
    const CurveLine& line = figure->lines[i];
    if (line.points.empty() || !seen.insert(line.key).second) continue;
    const RunHistory& run = *runs[static_cast<size_t>(line.key / kRunKey)];
    const auto best = best_value(run, static_cast<size_t>(line.key % kRunKey), compared, larger);
    if (best) order.emplace_back(larger ? -best->value : best->value, i);
  }
  std::ranges::stable_sort(order, {}, &std::pair<double, size_t>::first);
  for (size_t k = 0; k < std::min(kLabelled, order.size()); ++k)
    figure->labelled.push_back(order[k].second);
}

}  // namespace

std::string group_name(const ModelReport& model, const std::vector<std::string>& keys) {
  std::string name;
  for (const std::string& key : keys)
    if (const auto value = setting_of(model, key))
      name += fmt::format("{}{}={}", name.empty() ? "" : " ", key, *value);
  return name.empty() ? "all models" : name;
}

std::vector<Point> smoothed(const std::vector<Point>& points, double smoothing) {
  std::vector<Point> result;
  result.reserve(points.size());
  double sum = 0, weight = 0;
  for (const Point& point : points) {
    if (std::isfinite(point.y)) {
      sum = smoothing * sum + (1 - smoothing) * point.y;
      weight = smoothing * weight + (1 - smoothing);
    }
    result.push_back({point.x, weight > 0 ? sum / weight : point.y});
  }
  return result;
}

std::vector<std::string> figure_metrics(const Runs& runs) {
  std::vector<std::string> names;
  if (runs.empty()) return names;
  names.push_back(compared_metric(*runs[0]));
  for (const auto& run : runs)
    for (const auto& [name, curves] : run->metrics)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

CurvesFigure run_figure(const Runs& runs, const RunFigureOptions& options) {
  CurvesFigure figure;
  if (runs.empty()) return figure;
  const std::string metric = options.metric.empty() ? compared_metric(*runs[0]) : options.metric;
  const bool training = options.training && metric == "loss";
  std::vector<Configuration> configurations = configurations_of(runs, options);
  std::erase_if(configurations, [&](const Configuration& c) {
    const RunHistory& run = *runs[c.run];
    return !run.metric(metric) && !(training && run.metric("train_loss"));
  });
  const size_t coloured =
      configurations.size() <= kSeriesColours ? configurations.size() : size_t{kSeriesColours} - 1;
  for (size_t c = 0; c < configurations.size(); ++c) {
    const Colour colour =
        c < coloured ? series_colour(static_cast<int>(c)) : Colour{Tone::muted, 0, 1};
    add_configuration(runs, options, configurations[c], metric, colour, &figure);
    if (training)
      add_configuration(runs, options, configurations[c], "train_loss", colour, &figure);
  }
  if (coloured < configurations.size())
    figure.others = fmt::format("{} other configurations, each model a faint line",
                                configurations.size() - coloured);
  std::set<int64_t> with_lines;
  for (const CurveLine& line : figure.lines)
    if (!line.points.empty()) with_lines.insert(line.key);
  figure.shown = with_lines.size();
  label_best(runs, &figure);
  figure.log_y = options.log_y;
  figure.y_name = metric;
  if (training) figure.y_name = "loss (training dashed)";
  figure.x_name = options.along == "epoch"     ? "epochs"
                  : options.along == "seconds" ? "seconds of training"
                                               : "training steps";
  figure.x_end = 0;
  for (const auto& run : runs) {
    figure.total += run->models.size();
    if (!figure.title.empty()) figure.title += " and ";
    figure.title += run->id > 0 ? fmt::format("run {} · {}", run->id, run->name) : run->name;
    // The axis of a running run ends at its final step, so that it does not change.
    const int64_t last = run->state == "running" ? run->steps : run->last_step();
    if (options.along != "seconds")
      figure.x_end = std::max(figure.x_end, along_of(*run, options.along, last));
  }
  return figure;
}

CurvesFigure report_figure(const std::shared_ptr<const RunHistory>& run, const std::string& metric,
                           const std::vector<std::string>& by) {
  constexpr double kManySizes = 20;  // largest over smallest value
  RunFigureOptions options;
  options.metric = metric;
  options.by = by;
  CurvesFigure figure = run_figure({run}, options);
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const CurveLine& line : figure.lines)
    for (const Point& point : line.points)
      if (std::isfinite(point.y)) {
        low = std::min(low, point.y);
        high = std::max(high, point.y);
      }
  figure.log_y = low > 0 && high > kManySizes * low;
  return figure;
}

}  // namespace wide
