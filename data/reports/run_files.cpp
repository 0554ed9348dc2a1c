#include "data/reports/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/bytes/csv.h"
#include "data/escape.h"
#include "data/reports/run_report.h"
#include "data/text.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

std::string escape(const std::string& text) { return xml_escape(clean_text(text)); }

std::string cell(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.dump();
}

/// What is drawn along the steps: "train_loss", and each metric.
std::vector<std::string> curves(const Json& run) {
  std::vector<std::string> names;
  for (const Json& row : run.at("history"))
    for (const auto& [key, value] : row.items())
      if (value.is_array() && std::find(names.begin(), names.end(), key) == names.end())
        names.push_back(key);
  return names;
}

/// One line a model over the steps.
std::string curve_svg(const Json& run, const std::string& name) {
  constexpr double kWidth = 560, kHeight = 260, kLeft = 60, kBottom = 30, kTop = 10, kRight = 10;
  double low = INFINITY, high = -INFINITY, last = 1;
  for (const Json& row : run.at("history")) {
    last = std::max(last, row.at("step").get<double>());
    if (row.contains(name))
      for (const Json& v : row.at(name))
        if (v.is_number() && std::isfinite(v.get<double>())) {
          low = std::min(low, v.get<double>());
          high = std::max(high, v.get<double>());
        }
  }
  if (!(low <= high)) return "";
  if (low == high) high = low + 1;
  const auto x = [&](double step) { return kLeft + step / last * (kWidth - kLeft - kRight); };
  const auto y = [&](double v) {
    return kHeight - kBottom - (v - low) / (high - low) * (kHeight - kBottom - kTop);
  };
  std::string lines;
  const size_t n = run.at("models").size();
  for (size_t m = 0; m < n; ++m) {
    std::string points;
    for (const Json& row : run.at("history")) {
      if (!row.contains(name) || m >= row.at(name).size()) continue;
      const Json& v = row.at(name)[m];
      if (v.is_number() && std::isfinite(v.get<double>()))
        points +=
            fmt::format("{:.1f},{:.1f} ", x(row.at("step").get<double>()), y(v.get<double>()));
    }
    if (points.empty()) continue;
    lines += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"hsl({} 60% 50%)\" stroke-width=\"1\" "
        "opacity=\".7\"><title>model {}</title></polyline>",
        points, n > 1 ? 300 * m / (n - 1) : 200, m);
  }
  return fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\"><title>{2}</title>"
      "<text x=\"4\" y=\"{3}\">{4:.4g}</text><text x=\"4\" y=\"{5}\">{6:.4g}</text>"
      "<text x=\"{7}\" y=\"{8}\" text-anchor=\"end\">step {9}</text>{10}</svg>",
      kWidth, kHeight, escape(name), y(high) + 10, high, y(low), low, kWidth - kRight, kHeight - 8,
      last, lines);
}

std::string table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& h : head) text += "<th>" + escape(h) + "</th>";
  text += "</tr></thead><tbody>";
  for (const auto& row : rows) {
    text += "<tr>";
    for (const std::string& c : row) text += "<td>" + escape(c) + "</td>";
    text += "</tr>";
  }
  return text + "</tbody></table></div>\n";
}

/// A model a row; columns are those that all have.
void models_table(const Json& run, std::vector<std::string>* head,
                  std::vector<std::vector<std::string>>* rows) {
  *head = {"model", "name", "config", "fold", "seed.init", "seed.order", "seed.dropout"};
  const Json& first = run.at("models").at(0);
  for (const auto& [key, value] : first.at("hyperparameters").items()) head->push_back(key);
  std::vector<std::string> best, test;
  for (const Json& m : run.at("models"))
    for (const auto& [part, names] : {std::pair("best", &best), {"test", &test}})
      if (!m.at(part).is_null())
        for (const auto& [key, value] : m.at(part).items())
          if (std::find(names->begin(), names->end(), key) == names->end()) names->push_back(key);
  for (const char* more : {"status", "at_step"}) head->emplace_back(more);
  for (const std::string& key : best) head->push_back("best." + key);
  for (const std::string& key : test) head->push_back("test." + key);
  for (const Json& m : run.at("models")) {
    const Json& seeds = m.at("seeds");
    std::vector<std::string> row{cell(m.at("model")),      cell(m.at("name")),
                                 cell(m.at("config")),     cell(m.at("fold")),
                                 cell(seeds.at("init")),   cell(seeds.at("order")),
                                 cell(seeds.at("dropout"))};
    for (const auto& [key, value] : first.at("hyperparameters").items())
      row.push_back(cell(m.at("hyperparameters").at(key)));
    row.push_back(cell(m.at("status")));
    row.push_back(cell(m.at("at_step")));
    for (const std::string& key : best)
      row.push_back(m.at("best").is_null() ? "" : cell(m.at("best").value(key, Json(nullptr))));
    for (const std::string& key : test) row.push_back(cell(m.at("test").value(key, Json(nullptr))));
    rows->push_back(std::move(row));
  }
}

}  // namespace

std::string run_csv(const Json& run) {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  models_table(run, &head, &rows);
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) text += (i ? "," : "") + csv_cell(cells[i]);
    text += "\n";
  };
  line(head);
  for (const auto& row : rows) line(row);
  return text;
}

std::string run_html(const Json& run, const std::vector<std::string>& by) {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  models_table(run, &head, &rows);
  const std::string network = escape(run.at("network").get<std::string>());
  std::string text = fmt::format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>"
      ":root{{color-scheme:light dark}}body{{font:14px/1.5 system-ui,sans-serif;margin:24px auto;"
      "max-width:1200px}}pre{{white-space:pre-wrap}}.wide{{overflow-x:auto}}table{{border-collapse:"
      "collapse;font-size:13px}}th,td{{padding:3px 9px;text-align:left;white-space:nowrap;"
      "border-bottom:1px solid #8884}}svg{{font-size:11px;fill:currentColor}}</style></head><body>"
      "<h1>{0}</h1><pre>{1}</pre><p>{2}</p>\n",
      network, escape(run.at("run").at("command").get<std::string>()),
      escape(fmt::format("{} models, {} steps of {}", run.at("n").get<int64_t>(),
                         run.at("run").at("step").get<int64_t>(), run.at("batch").get<int64_t>())));
  text += "<h2>Configurations</h2><pre>" + escape(run_text(run, by)) + "</pre>\n<h2>Curves</h2>\n";
  for (const std::string& name : curves(run))
    text += "<h3>" + escape(name) + "</h3>" + curve_svg(run, name) + "\n";
  text += "<h2>Models</h2>\n" + table(head, rows);
  return text + "</body></html>\n";
}

std::string run_junit(const Json& run) {
  size_t failures = 0;
  std::string cases;
  for (const Json& m : run.at("models")) {
    const std::string status = m.at("status");
    cases += fmt::format("  <testcase classname=\"{}\" name=\"model {}\">",
                         escape(run.at("network").get<std::string>()), m.at("model").dump());
    if (status == "diverged") {
      ++failures;
      cases += fmt::format("<failure message=\"diverged at step {}\"/>", m.at("at_step").dump());
    } else if (status == "interrupted" || status == "pruned") {
      cases += fmt::format("<skipped message=\"{} at step {}\"/>", status, m.at("at_step").dump());
    }
    cases += "</testcase>\n";
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n <testsuite name=\"train\" "
      "tests=\"{}\" failures=\"{}\" time=\"{:.3f}\">\n{} </testsuite>\n</testsuites>\n",
      run.at("models").size(), failures, run.at("run").at("seconds").get<double>(), cases);
}

}  // namespace wide
