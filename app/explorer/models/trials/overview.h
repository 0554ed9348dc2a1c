#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/explorer/models/trials/axes.h"
#include "data/plot/measure.h"

namespace wide {

struct OverviewOptions {
  std::string rows, columns;                // names of axes; "" and unknown ones: `matrix_axes`
  Measure measure = Measure::speedup;       // or time, or memory
  std::map<std::string, std::string> held;  // only trials with this value of that axis
  std::string filter = "";                  // only trials that it keeps; the syntax of `Filter`
  bool operator==(const OverviewOptions&) const = default;
};

/// All trials at one row and column: the best correct one, and counts of the others.
struct OverviewCell {
  int32_t row = -1;                 // of the best correct trial; -1: none
  double value = TrialRow::kNone;   // its speedup, nanoseconds or bytes
  int32_t first = -1;               // the first trial of all
  int32_t left_out = -1;            // a baseline that could not run
  double needed = TrialRow::kNone;  // estimated bytes, the least of the trials out of memory
  int incorrect = 0, failed = 0, unsupported = 0, oom = 0, skipped = 0, right = 0;
  int not_finished = 0;  // cancelled or interrupted: neither correct nor wrong

  /// A cell's text, such as "3.2×", "OOM" or "none", without marks of disturbance.
  std::string text(Measure measure, const TrialTable& table) const;
};

struct OverviewLine {
  size_t value = 0;                      // index of the row's value on its axis
  std::string name;                      // "linear", "T=256"
  std::map<size_t, OverviewCell> cells;  // by the value of the axis of the columns
  uint32_t row = 0;                      // the best at the last column that has one, else the first
  std::string fastest;                   // the strategy of that trial
  std::optional<int64_t> crossover;      // of that strategy in its group, along N
  int incorrect = 0, failed = 0, right = 0, trials = 0;
};

/// An axis that is neither rows nor columns, which can be held at one value.
struct OverviewHold {
  std::string axis;
  std::vector<std::string> values;
  std::string held;  // "": all values, of which the best counts
};

/// A sweep along two axes: the best trial in each cell, and what was wrong or did not fit.
struct Overview {
  std::string rows, columns;
  Measure measure = Measure::speedup;
  std::vector<std::string> heads;  // heads of the columns, such as "N=8", by value
  std::vector<OverviewLine> lines;
  std::vector<OverviewHold> holds;
  double low = 1, high = 1;  // of all values

  /// A cell's value as the speedup that its colour shows: 1 in the middle, 16 the best.
  double shade(double value) const;
};

/// How the lines are sorted.
struct OverviewSort {
  enum class By { cases, name, fastest, pays_from, right, column };
  By by = By::cases;  // in the order of the sweep's cases
  size_t column = 0;  // for By::column: the index of the column
  bool descending = false;
  bool operator==(const OverviewSort&) const = default;
};
/// Indices of the lines in that order; lines without a value always come last.
std::vector<size_t> sorted_lines(const Overview& overview, const OverviewSort& sort);

/// An invalid filter keeps everything.
Overview overview_of(const TrialTable& table, const std::vector<TableAxis>& axes,
                     const OverviewOptions& options);

}  // namespace wide
