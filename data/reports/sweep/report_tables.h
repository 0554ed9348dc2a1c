#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/reports/sweep/report.h"

namespace wide {

/// The text of a table's cell, and the number behind it for sorting and for programs.
struct TableCell {
  TableCell(std::string shown = "", std::optional<double> number = {})
      : text(std::move(shown)), value(number) {}

  std::string text;
  std::optional<double> value;
};

struct ReportTable {
  explicit ReportTable(std::vector<std::string> names = {},
                       const std::set<std::string>& of_numbers = {});

  std::vector<std::string> head;
  std::vector<bool> right;  // columns of numbers; those beyond its end are none
  std::vector<std::vector<TableCell>> rows;

  /// Removes a column.
  void leave_out(const std::string& name);
  std::string csv() const;
  std::string markdown() const;
};

/// The cases of one target together, targets in the report's order.
std::vector<std::vector<Case>> target_groups(const std::vector<Case>& cases);

/// Device, dtype, mode and phase as far as all cases share them: "cpu · f32 · eager · forward".
std::string common_text(const std::vector<Case>& cases);

/// Every baseline and trial of one target's cases; properties that all cases share have no columns.
ReportTable timing_table(const std::vector<Case>& cases);
/// A row for each of `summary_rows`, with the number of its trials by status; properties that all
/// cases share have no columns.
ReportTable summary_table(const SweepReport& report);
/// From which N on a strategy is FASTER than the best baseline.
ReportTable crossover_table(const std::vector<Case>& cases);
/// Why trials of these cases are not ok, and notes on baselines: one row per reason, with what of
/// the cases (mode, phase, ...) it is limited to.
ReportTable reason_table(const std::vector<Case>& cases);
/// All machines on which cases were measured, the sweep's own first.
std::vector<const Environment*> machines_of(const SweepReport& report);
/// The machines of a sweep in one line: "PROCESSOR, 2 threads · GPU", or "3 machines: " and theirs.
std::string machines_text(const SweepReport& report);
/// "HOST: PROCESSOR, 2 cores: 12 cases"; "" if the report has one machine.
std::string machine_heading(const SweepReport& report, const Environment& machine);
ReportTable environment_table(const Environment& environment);

/// A row of the CSV report by column, from the JSON of a case and of a timing. Columns are named
/// like the JSON's fields; names of nested fields are joined: `vs_loop`, `vs_loop_low`.
using CsvRow = std::vector<std::pair<std::string, std::string>>;
CsvRow csv_row(const nlohmann::ordered_json& of_case, const nlohmann::ordered_json& timing);

}  // namespace wide
