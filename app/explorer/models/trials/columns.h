#pragma once
#include <string>
#include <vector>

#include "data/plot/measure.h"
#include "data/store/sweeps/browse.h"

namespace wide {

/// A column of the trials' table: a word or a number of a row.
struct TableColumn {
  std::string key;    // in filters and CSV: "speedup"
  std::string title;  // in the table's head: "over best"
  int32_t TrialRow::*word = nullptr;
  double (*number)(const TrialRow&) = nullptr;  // NaN: none
  std::string (*text)(double) = nullptr;        // of the number
  float width = 80;                             // in pixels at 100 %
  const char* about = "";                       // in plain words
  bool shown = true;                            // at first
};
const std::vector<TableColumn>& columns();
/// Index, or -1. "median" and the like stand for their columns too.
int column_index(const std::string& key);

/// As the table shows it.
std::string cell_text(const TrialTable& table, const TrialRow& row, const TableColumn& column);
/// As CSV has it: numbers in full, in nanoseconds and bytes, as in the reports.
std::string cell_csv(const TrialTable& table, const TrialRow& row, const TableColumn& column);
/// Head and rows, of these columns and of those without which a number says little: what the case
/// was, and the interval of each speedup. Heads name the unit, as "time_ns".
std::string csv_text(const TrialTable& table, const std::vector<uint32_t>& rows,
                     const std::vector<int>& shown);

}  // namespace wide
