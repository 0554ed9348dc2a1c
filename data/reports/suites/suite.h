#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/reports/suites/suite_rows.h"
#include "data/reports/suites/suites.h"
#include "data/reports/sweep/report_tables.h"

// Shared by the suites. Each suite is one file, which writes the CSV files, tables and plots of one
// preset.
namespace wide {

/// What the rows of one file show: the CSV file, tables as Markdown, and plots.
struct SuitePart {
  ReportTable table;
  std::string text;
  std::vector<Figure> figures;
};

/// How the results of one preset are written. Registers itself at static initialisation.
struct Suite {
  std::string preset;  // the preset, whose targets have the rows; also a part of file names
  std::function<SuitePart(const std::vector<SuiteRow>& rows)> part;
  std::string axis = {};  // of 0 or 1; rows with 1 have files of their own, with its name in theirs
};
bool add_suite(Suite suite);
/// All suites, sorted by the preset's name.
const std::vector<Suite>& suites();

using Cells = std::vector<std::string>;

/// Milliseconds ("1.2345"), and a ratio ("3.210"), as tables show them.
std::string ms(double value);
std::string times(double value);
/// A time, or why there is none: "OOM 12.3 GB".
std::string time_or_why(const SuiteCell& cell);
std::string bytes_or_why(const SuiteCell& cell);
std::string speedup_or_why(const SuiteCell& vanilla, const SuiteCell& other);
/// "-bf16" if the dtype is not f32; "-eager" if the mode is not the default; "-cuda0" if the device
/// is not the CPU; "-n4" if N is not 1; "-machine2" if the report has several machines.
std::string suffix(const SuiteRow& row);
/// Forms beside vanilla that any of the rows has, in the order they are shown in.
Cells forms_of(const std::vector<SuiteRow>& rows);

/// Rows by the name that `key` gives them, in order of first appearance.
template <class Key>
std::vector<std::pair<std::string, std::vector<SuiteRow>>> files_of(
    const std::vector<SuiteRow>& rows, Key key) {
  std::vector<std::pair<std::string, std::vector<SuiteRow>>> files;
  for (const SuiteRow& row : rows) {
    const std::string name = key(row);
    auto file = std::find_if(files.begin(), files.end(),
                             [&](const auto& other) { return other.first == name; });
    if (file == files.end()) file = files.insert(file, {name, {}});
    file->second.push_back(row);
  }
  return files;
}

/// A point's memory, its speedup over vanilla, or its time: its median, and its quartiles if they
/// are known.
void set_value(CurvePoint* point, const SuiteCell& cell, const SuiteCell& vanilla, Measure measure);
/// Times, memory or speedups of rows along an axis, a curve for each form.
Figure figure_along(const std::vector<SuiteRow>& rows, const std::string& axis,
                    const std::string& phase, Measure measure);
bool has_values(const Figure& figure);

}  // namespace wide
