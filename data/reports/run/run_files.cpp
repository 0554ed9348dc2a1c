#include "data/reports/run/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "data/escape.h"
#include "data/reports/run/run_fields.h"
#include "data/reports/sweep/report_json.h"
#include "data/text.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

std::string escape(const std::string& text) { return xml_escape(clean_text(text)); }

TableCell cell(const Json& value) {
  if (value.is_string()) return {value.get<std::string>(), std::nullopt};
  if (!value.is_number()) return value.is_null() ? TableCell{} : TableCell{value.dump(), {}};
  const auto number = value.get<double>();
  if (!std::isfinite(number)) return {};
  return {value.is_number_float() ? fmt::format("{}", number) : value.dump(), number};
}

/// A field of a model as columns: one, or for a map one for each entry.
std::vector<std::pair<std::string, TableCell>> cells_of(const std::string& field,
                                                        const Json& value) {
  static const std::map<std::string, std::string> kShown{{"seeds", "seed."},
                                                         {"hyperparameters", ""},
                                                         {"labels", ""},
                                                         {"best", "best."},
                                                         {"test", "test."}};
  const auto prefix = kShown.find(field);
  std::vector<std::pair<std::string, TableCell>> cells;
  if (prefix == kShown.end()) {
    if (!value.is_structured()) cells.emplace_back(field, cell(value));
  } else if (value.is_object()) {
    for (const auto& [key, entry] : value.items())
      cells.emplace_back(prefix->second + key, cell(entry));
  }
  return cells;
}

}  // namespace

ReportTable models_table(const std::vector<Json>& all) {
  std::vector<std::string> fields;                          // in the order of a model's JSON
  std::map<std::string, std::vector<std::string>> columns;  // by field
  std::vector<std::map<std::string, TableCell>> models;
  for (const Json& model : all) {
    auto& cells = models.emplace_back();
    for (const auto& [field, value] : model.items()) {
      if (!columns.count(field)) fields.push_back(field);
      std::vector<std::string>& names = columns[field];
      for (auto& [column, one] : cells_of(field, value)) {
        if (std::find(names.begin(), names.end(), column) == names.end()) names.push_back(column);
        cells[column] = std::move(one);
      }
    }
  }
  ReportTable table;
  table.rows.resize(models.size());
  for (const std::string& field : fields)
    for (const std::string& column : columns[field]) {
      table.head.push_back(column);
      table.right.push_back(field != "name" && field != "status" && field != "labels");
      for (size_t m = 0; m < models.size(); ++m) table.rows[m].push_back(models[m][column]);
    }
  return table;
}

ReportTable models_table(const RunReport& run) {
  std::vector<Json> models;
  for (const ModelReport& model : run.models) models.push_back(fields_json(model));
  return models_table(models);
}

std::string run_csv(const RunReport& run) { return models_table(run).csv(); }

std::string run_junit(const RunReport& run) {
  size_t failures = 0;
  std::string cases;
  for (const ModelReport& m : run.models) {
    const std::string& status = m.status;
    cases += fmt::format("  <testcase classname=\"{}\" name=\"model {}\">", escape(run.network),
                         m.number);
    if (status == "diverged") {
      ++failures;
      cases += fmt::format("<failure message=\"diverged at step {}\"/>", m.at_step);
    } else if (status == "interrupted" || status == "pruned") {
      cases += fmt::format("<skipped message=\"{} at step {}\"/>", status, m.at_step);
    }
    cases += "</testcase>\n";
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n <testsuite name=\"train\" "
      "tests=\"{}\" failures=\"{}\" time=\"{:.3f}\">\n{} </testsuite>\n</testsuites>\n",
      run.models.size(), failures, run.run.seconds, cases);
}

}  // namespace wide
