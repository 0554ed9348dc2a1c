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
  std::string (*text)(double) = nullptr;        // formats the number
  float width = 80;                             // in pixels at 100 %
  const char* about = "";                       // its tooltip
  bool shown = true;                            // by default
};
const std::vector<TableColumn>& columns();
/// Whether a column's numbers are shown in full: whole ones, yes and no. Others are rounded.
bool shown_in_full(const TableColumn& column);
/// The index of a column, or -1. Accepts other names such as "median" too.
int column_index(const std::string& key);

/// The text of a cell in the window's table.
std::string cell_text(const TrialTable& table, const TrialRow& row, const TableColumn& column);
/// CSV with head and rows: these columns, those that identify the case, and the interval of each
/// speedup. Numbers are in full, in nanoseconds and bytes, as in the reports; heads name the unit,
/// such as "time_ns".
std::string csv_text(const TrialTable& table, const std::vector<uint32_t>& rows,
                     const std::vector<int>& shown);

}  // namespace wide
