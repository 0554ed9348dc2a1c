#include "data/reports/run_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/plot/canvas_text.h"
#include "data/plot/scale.h"
#include "data/plot/svg.h"
#include "data/reports/html_page.h"
#include "data/reports/run_report.h"

namespace wide {
namespace {

constexpr double kWidth = 920, kHeight = 300;
constexpr Box kPlot{64, 12, 600, 236};
constexpr double kLegend = 684, kLegendLine = 20;
constexpr double kLogFrom =
    20;  // largest over smallest value from which on the axis is logarithmic
constexpr double kOutliers = 10;  // times as far as the middle 96 % of all values: cut off

/// Lines of one colour.
struct Series {
  std::string name;
  std::vector<size_t> models;
  Colour colour;
  double width = 1.5;
};

bool belongs(const ModelReport& model, const ConfigSummary& config) {
  return std::all_of(
      config.hyperparameters.begin(), config.hyperparameters.end(),
      [&](const auto& one) { return number_at(model.hyperparameters, one.first) == one.second; });
}

/// The best ones in colours, below them all others in grey: as many as there are colours.
std::vector<Series> series_of(const RunReport& run, const std::vector<std::string>& by) {
  const std::vector<ModelReport>& models = run.models;
  const std::vector<ConfigSummary> configs = by_config(run, by);
  std::vector<Series> all;
  if (configs.size() == 1 && models.size() <= kSeriesColours) {
    for (size_t m = 0; m < models.size(); ++m)
      all.push_back({fmt::format("model {}", m), {m}, series_colour(int(m)), 1.5});
    return all;
  }
  Series others{"", {}, {Tone::muted, 0, 0.35}, 1};
  const size_t coloured =
      configs.size() <= kSeriesColours ? configs.size() : size_t{kSeriesColours} - 1;
  for (size_t c = 0; c < configs.size(); ++c) {
    Series series{config_name(configs[c]), {}, series_colour(int(c), 0.85), 1.5};
    for (size_t m = 0; m < models.size(); ++m)
      if (belongs(models[m], configs[c])) (c < coloured ? series : others).models.push_back(m);
    if (series.models.size() > 1) series.name += fmt::format(" ({} models)", series.models.size());
    if (c < coloured) all.push_back(std::move(series));
  }
  if (!others.models.empty()) {
    others.name = fmt::format("the {} other configurations", configs.size() - coloured);
    all.push_back(std::move(others));
  }
  return all;
}

/// From values to pixels, upwards or to the right.
struct CurveAxis {
  bool logarithmic = false, cut = false;  // the latter: some values lie outside
  LogScale scale;                         // of linear axes its ends alone
  std::vector<Tick> ticks;

  double at(double value) const {
    if (logarithmic) return scale.at(value);
    return scale.from_px +
           (value - scale.low) / (scale.high - scale.low) * (scale.to_px - scale.from_px);
  }
};

CurveAxis value_axis(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  CurveAxis axis;
  double low = values.front(), high = values.back();
  axis.logarithmic = low > 0 && high > kLogFrom * low;
  if (!axis.logarithmic) {
    const double first = values[values.size() / 50];
    const double last = values[values.size() - 1 - values.size() / 50];
    axis.cut = last > first && high - low > kOutliers * (last - first);
    if (axis.cut) {
      low = first;
      high = last;
    }
    const double least = std::max(1e-6 * std::max(std::abs(low), std::abs(high)), 1e-12);
    const double rim = std::max(0.04 * (high - low), least);
    low -= rim;
    high += rim;
  } else {
    const double rim = std::pow(high / low, 0.04);
    low /= rim;
    high *= rim;
  }
  axis.scale = {low, high, kPlot.bottom(), kPlot.y};
  axis.ticks =
      axis.logarithmic ? value_ticks(axis.scale, 26, short_number) : linear_ticks(low, high, 7);
  return axis;
}

void draw_axes(Canvas& canvas, const CurveAxis& x, const CurveAxis& y, const std::string& name) {
  const TextStyle label{{Tone::muted}, 11, Align::right}, under{{Tone::muted}, 11, Align::centre};
  const Stroke grid{{Tone::grid}}, rule{{Tone::rule}};
  for (const Tick& tick : y.ticks)
    canvas.line({kPlot.x, y.at(tick.value)}, {kPlot.right(), y.at(tick.value)}, grid);
  for (const Tick& tick : x.ticks)
    canvas.line({x.at(tick.value), kPlot.y}, {x.at(tick.value), kPlot.bottom()}, grid);
  canvas.line({kPlot.x, kPlot.bottom()}, {kPlot.right(), kPlot.bottom()}, rule);
  canvas.line({kPlot.x, kPlot.y}, {kPlot.x, kPlot.bottom()}, rule);
  canvas.begin("y-axis", "");
  for (const Tick& tick : y.ticks)
    canvas.text({kPlot.x - 8, y.at(tick.value) + 4}, tick.label, label);
  canvas.end();
  canvas.begin("x-axis", "");
  for (const Tick& tick : x.ticks)
    canvas.text({x.at(tick.value), kPlot.bottom() + 16}, tick.label, under);
  canvas.end();
  std::string said = name + (y.logarithmic ? ", logarithmic" : "");
  if (y.cut) said += ", far values cut off";
  canvas.text({kPlot.x, kPlot.bottom() + 36}, said + " against training steps",
              {{Tone::text}, 11, Align::left});
}

void draw_legend(Canvas& canvas, const std::vector<Series>& all) {
  double y = kPlot.y + 12;
  for (const Series& series : all) {
    const TextStyle style{{Tone::text}, 12};
    canvas.begin("legend", series.name);
    canvas.line({kLegend, y - 4}, {kLegend + 22, y - 4}, {series.colour, 3});
    canvas.text({kLegend + 30, y}, shorten(canvas, series.name, style, kWidth - kLegend - 34),
                style);
    canvas.end();
    y += kLegendLine;
  }
}

/// "" where no model has a value.
std::string curve(const RunReport& run, const std::string& name, const std::vector<Series>& all) {
  std::vector<std::vector<Point>> lines(run.models.size());  // by model: step, value
  std::vector<double> values;
  double last = 1;
  for (const RunEvaluation& row : run.history) {
    const auto step = static_cast<double>(row.step);
    last = std::max(last, step);
    const auto found = row.values.find(name);
    if (name != "train_loss" && found == row.values.end()) continue;
    const std::vector<double>& numbers = name == "train_loss" ? row.train_loss : found->second;
    for (size_t m = 0; m < std::min(lines.size(), numbers.size()); ++m)
      if (std::isfinite(numbers[m])) {
        lines[m].push_back({step, numbers[m]});
        values.push_back(numbers[m]);
      }
  }
  if (values.empty()) return "";
  const CurveAxis y = value_axis(values);
  CurveAxis x;
  x.scale = {0, last, kPlot.x, kPlot.right()};
  x.ticks = linear_ticks(0, last, 8);
  x.ticks.erase(std::remove_if(x.ticks.begin(), x.ticks.end(),
                               [](const Tick& t) { return t.value != std::floor(t.value); }),
                x.ticks.end());
  SvgCanvas canvas(kWidth, kHeight);
  draw_axes(canvas, x, y, name);
  canvas.push_clip({kPlot.x - 3, kPlot.y - 3, kPlot.width + 6, kPlot.height + 6});
  for (auto series = all.rbegin(); series != all.rend(); ++series)  // the best one on top
    for (const size_t m : series->models) {
      if (lines[m].empty()) continue;
      std::vector<Point> points;
      for (const Point& p : lines[m]) points.push_back({x.at(p.x), y.at(p.y)});
      canvas.begin("curve", fmt::format("model {}: {}", m, series->name));
      if (points.size() > 1)
        canvas.polyline(points, {series->colour, series->width});
      else  // one evaluation is no line
        canvas.marker(points[0], Shape2D::circle, 5, series->colour);
      canvas.end();
    }
  canvas.pop_clip();
  draw_legend(canvas, all);
  return fmt::format("<h3>{}</h3>\n{}", html_escape(name), canvas.element(name));
}

}  // namespace

std::string learning_curves(const RunReport& run, const std::vector<std::string>& by) {
  const std::vector<Series> all = series_of(run, by);
  std::vector<std::string> names{"train_loss"};
  for (const std::string& metric : metric_names(run)) names.push_back(metric);
  std::string text;
  for (const std::string& name : names) text += curve(run, name, all);
  return text;
}

}  // namespace wide
