#include "data/reports/run/run_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/reports/html_page.h"
#include "data/reports/run/run_figure.h"
#include "data/reports/run/run_files.h"
#include "data/reports/run/run_report.h"
#include "data/text.h"

namespace wide {
namespace {

/// A cell without the mean of the middle half, which has its own column.
TableCell spread_cell(const std::optional<Spread>& spread, int64_t models) {
  return spread ? TableCell{spread_text_of(spread, models, false), spread->mean} : TableCell{};
}

TableCell number_cell(double value) { return {fmt::format("{:.4g}", value), value}; }

/// A cell with as many digits as tell the number from all others.
TableCell exact_cell(double value) { return {fmt::format("{}", value), value}; }

TableCell count_cell(int64_t count) { return {std::to_string(count), double(count)}; }

/// A row for each configuration, best first; without empty columns.
ReportTable configurations_table(const std::vector<ConfigSummary>& configs) {
  ReportTable table;
  table.rows.resize(configs.size());
  const auto add = [&](const std::string& head, const auto& cell_of) {
    std::vector<TableCell> cells;
    for (const ConfigSummary& c : configs) cells.push_back(cell_of(c));
    if (std::all_of(cells.begin(), cells.end(), [](const auto& c) { return c.text.empty(); }))
      return;
    table.head.push_back(head);
    table.right.push_back(true);
    for (size_t i = 0; i < cells.size(); ++i) table.rows[i].push_back(std::move(cells[i]));
  };
  for (const auto& [key, unused] : configs[0].hyperparameters)
    add(key,
        [&name = key](const ConfigSummary& c) { return exact_cell(c.hyperparameters.at(name)); });
  add("n", [](const ConfigSummary& c) { return count_cell(c.n); });
  if (any_pruned(configs))
    add("pruned", [](const ConfigSummary& c) { return count_cell(c.pruned); });
  for (size_t k = 0; k < configs[0].metrics.size(); ++k) {
    const std::string& name = configs[0].metrics[k].name;
    add(name, [&](const ConfigSummary& c) { return spread_cell(c.metrics[k].validation, c.n); });
    add(name + ", middle half", [&](const ConfigSummary& c) {
      const auto& spread = c.metrics[k].validation;
      return spread && spread->n > 1 ? number_cell(spread->iqm) : TableCell{};
    });
    add("test " + name,
        [&](const ConfigSummary& c) { return spread_cell(c.metrics[k].test, c.n); });
  }
  return table;
}

/// The mean answer's metrics, one row for the validation rows, one for the test rows.
ReportTable ensemble_table(const RunReport& run) {
  ReportTable table;
  if (run.models.size() < 2) return table;
  const std::vector<std::string> metrics = metric_names(run);
  table.head = {"their mean answer", "models"};
  table.right = {false, true};
  for (const std::string& metric : metrics) {
    table.head.push_back(metric);
    table.right.push_back(true);
  }
  for (const auto& [rows, values] : answers_of(run.ensemble)) {
    if (values.empty()) continue;
    const int64_t models = answering_models(run);
    table.rows.push_back(
        {{rows + " rows", std::nullopt}, {std::to_string(models), double(models)}});
    for (const std::string& metric : metrics) {
      const auto value = number_at(values, metric);
      table.rows.back().push_back(value ? number_cell(*value) : TableCell{});
    }
  }
  return table;
}

/// The picture of `report --svg` for each metric, under a heading; "" where nothing was evaluated.
std::string learning_curves(const RunReport& run, const std::vector<std::string>& by) {
  const auto history = std::make_shared<const RunHistory>(run_history(run));
  std::string text;
  for (const std::string& metric : figure_metrics({history})) {
    // The picture of `loss` shows the training loss too.
    if (metric == "train_loss" && history->metric("loss")) continue;
    const CurvesFigure figure = report_figure(history, metric, by);
    const bool any = std::any_of(figure.lines.begin(), figure.lines.end(),
                                 [](const CurveLine& line) { return !line.points.empty(); });
    if (any) text += fmt::format("<h3>{}</h3>\n{}", html_escape(metric), curves_element(figure));
  }
  return text.empty() ? "" : "<h2>Learning curves</h2>\n" + text;
}

}  // namespace

std::string run_html(const RunReport& run, const std::vector<std::string>& by) {
  const std::vector<ConfigSummary> configs = by_config(run, by);
  const std::string monitored = configs[0].monitored().name;
  std::string body = fmt::format(
      "<h1>{}</h1>\n<p class=\"muted\">{} models · step {} of {} · batch {} · {} · {}</p>\n"
      "<h3>To repeat it</h3>\n<pre>{}</pre>\n",
      html_escape(run.network), run.n, run.run.step, run.run.steps, run.batch,
      time_text(run.run.seconds * 1e9), html_escape(statuses_text(run)),
      html_escape(run.run.command));
  body += fmt::format(
      "<h2>Configurations</h2>\n<p class=\"muted\">At each model's evaluation with the best {}: "
      "mean "
      "± standard deviation [95 % interval of the mean] over n models{}</p>\n",
      html_escape(monitored),
      any_pruned(configs) ? "; pruned models are left out of the means and of the mean answer"
                          : "");
  body += html_table(configurations_table(configs), "configurations");
  if (const ReportTable mean = ensemble_table(run); !mean.rows.empty())
    body += html_table(mean, "ensemble");
  for (const std::string& note : run.notes) body += fmt::format("<p>{}</p>\n", html_escape(note));
  body += learning_curves(run, by);
  body += "<h2>Models</h2>\n" + html_table(models_table(run), "models");
  return html_page(run.network, body);
}

}  // namespace wide
