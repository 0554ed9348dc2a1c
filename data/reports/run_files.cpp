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

TableCell cell(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return {value.get<std::string>(), std::nullopt};
  const std::optional<double> number =
      value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
  return {value.is_number_float() ? fmt::format("{}", *number) : value.dump(), number};
}

}  // namespace

ReportTable models_table(const Json& run) {
  ReportTable table;
  table.head = {"model", "name", "config", "fold", "seed.init", "seed.order", "seed.dropout"};
  const Json& first = run.at("models").at(0);
  for (const auto& [key, value] : first.at("hyperparameters").items()) table.head.push_back(key);
  std::vector<std::string> best, test;
  for (const Json& m : run.at("models"))
    for (const auto& [part, names] : {std::pair("best", &best), {"test", &test}})
      if (!m.at(part).is_null())
        for (const auto& [key, value] : m.at(part).items())
          if (std::find(names->begin(), names->end(), key) == names->end()) names->push_back(key);
  for (const char* more : {"status", "at_step"}) table.head.emplace_back(more);
  for (const std::string& key : best) table.head.push_back("best." + key);
  for (const std::string& key : test) table.head.push_back("test." + key);
  for (const Json& m : run.at("models")) {
    const Json& seeds = m.at("seeds");
    std::vector<TableCell> row{cell(m.at("model")),      cell(m.at("name")),
                               cell(m.at("config")),     cell(m.at("fold")),
                               cell(seeds.at("init")),   cell(seeds.at("order")),
                               cell(seeds.at("dropout"))};
    for (const auto& [key, value] : first.at("hyperparameters").items())
      row.push_back(cell(m.at("hyperparameters").at(key)));
    row.push_back(cell(m.at("status")));
    row.push_back(cell(m.at("at_step")));
    for (const std::string& key : best)
      row.push_back(m.at("best").is_null() ? TableCell{}
                                           : cell(m.at("best").value(key, Json(nullptr))));
    for (const std::string& key : test) row.push_back(cell(m.at("test").value(key, Json(nullptr))));
    table.rows.push_back(std::move(row));
  }
  for (size_t i = 0; i < table.head.size(); ++i)
    table.right.push_back(table.head[i] != "name" && table.head[i] != "status");
  return table;
}

std::string run_csv(const Json& run) {
  const ReportTable table = models_table(run);
  std::string text;
  for (size_t i = 0; i < table.head.size(); ++i) text += (i ? "," : "") + csv_cell(table.head[i]);
  text += "\n";
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) text += (i ? "," : "") + csv_cell(row[i].text);
    text += "\n";
  }
  return text;
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
