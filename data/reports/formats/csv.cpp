#include <nlohmann/json.hpp>

#include "data/escape.h"
#include "data/reports/report_format.h"
#include "data/reports/report_json.h"

namespace wide::csv_report {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::pair<std::string, std::string>>;

std::string cell(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return csv_cell(value.get_ref<const std::string&>());
  if (!value.is_array()) return value.dump();
  std::string list;  // samples: a list in one cell
  for (const Json& item : value) list += (list.empty() ? "" : " ") + item.dump();
  return list;
}

/// Names stay those of the JSON report; what is nested is joined: `vs_loop`, `vs_loop_low`.
void flatten(const Json& json, const std::string& name, Row* row) {
  for (const auto& [key, value] : json.items()) {
    const bool outer = key == "speedup" || key == "correctness";
    const std::string path = outer || key == "value" ? name : name.empty() ? key : name + "_" + key;
    if (key == "ci95" && value.is_array() && value.size() == 2) {
      row->emplace_back(name + "_low", cell(value[0]));
      row->emplace_back(name + "_high", cell(value[1]));
    } else if (value.is_object()) {
      flatten(value, path, row);
    } else if (!outer) {
      row->emplace_back(path, cell(value));
    }
  }
}

/// A row of a case's JSON and one of its timings'.
Row row_of(const Json& c, const Json& timing) {
  Row row;
  for (const auto& [key, value] : c.items())
    if (!value.is_structured()) row.emplace_back(key, cell(value));
  flatten(timing, "", &row);
  return row;
}

/// All columns there can be, from a report in which nothing is missing.
std::vector<std::string> columns() {
  SweepReport full;
  full.cases.resize(1);
  full.cases[0].baselines.resize(1);
  Trial trial;
  trial.speedup = Speedup{Interval{}, {}, ""};
  trial.correctness = Correctness{};
  trial.correctness->note = trial.correctness->failure = "text";
  trial.needed_bytes = 1;
  full.cases[0].window_frames = 0;
  full.cases[0].trials = {trial};
  const Json c = to_json(full)["cases"][0];
  std::vector<std::string> names;
  for (const auto& [name, value] : row_of(c, c["trials"][0])) names.push_back(name);
  return names;
}

std::string text(const SweepReport& report, const FigureOptions&) {
  const std::vector<std::string> names = columns();
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ",") + name;
  out += "\r\n";
  const Json json = to_json(report);
  for (const Json& c : json["cases"])
    for (const char* kind : {"baselines", "trials"})
      for (const Json& timing : c[kind]) {
        const Row row = row_of(c, timing);
        // A trial without samples has no time, not a time of zero.
        const bool timed = !timing["samples_ns"].empty();
        std::string line;
        for (size_t i = 0; i < names.size(); ++i) {
          std::string value;
          for (const auto& [name, text] : row)
            if (name == names[i]) value = text;
          const bool of_samples = names[i] == "median_ns" || names[i] == "q1_ns" ||
                                  names[i] == "q3_ns" || names[i] == "outliers";
          line += (i ? "," : "") + (of_samples && !timed ? "" : value);
        }
        out += line + "\r\n";
      }
  return out;
}

const bool registered =
    add_report_format({"csv", "one row per timing, names as in the JSON report", text});

}  // namespace
}  // namespace wide::csv_report
