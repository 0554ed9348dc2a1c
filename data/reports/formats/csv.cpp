#include <nlohmann/json.hpp>

#include "data/reports/report_format.h"
#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_tables.h"

namespace wide::csv_report {
namespace {

using Json = nlohmann::ordered_json;

/// All columns that a report can have.
std::vector<std::string> columns() {
  Case any_case;
  Trial any_trial;
  const auto all = [](auto& of) {
    return written([&](Fields& fields) { describe(fields, of); }, Written::all_empty);
  };
  std::vector<std::string> names;
  for (const auto& [name, value] : csv_row(all(any_case), all(any_trial))) names.push_back(name);
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
        const CsvRow row = csv_row(c, timing);
        // A trial without samples has an empty time, not zero.
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
