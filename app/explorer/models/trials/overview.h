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
  std::string filter = "";                  // only trials that it keeps; as of the table of trials
  bool operator==(const OverviewOptions&) const = default;
};

/// All trials at one row and column: the best that is right, and what is not.
struct OverviewCell {
  int32_t row = -1;                 // of the best right trial; -1: none
  double value = TrialRow::kNone;   // its speedup, nanoseconds or bytes
  int32_t first = -1;               // the first trial of all
  int32_t left_out = -1;            // a baseline that was known not to run
  double needed = TrialRow::kNone;  // bytes by estimate, the least of what is out of memory
  int incorrect = 0, failed = 0, unsupported = 0, oom = 0, skipped = 0, right = 0;
  int not_finished = 0;  // cancelled or interrupted: neither right nor wrong

  /// "3.2×", "OOM", "none": what a cell says in a word, without marks of disturbance.
  std::string text(Measure measure, const TrialTable& table) const;
};

struct OverviewLine {
  size_t value = 0;                      // of the axis of the rows
  std::string name;                      // "linear", "T=256"
  std::map<size_t, OverviewCell> cells;  // by the value of the axis of the columns
  uint32_t row = 0;                      // the best at the last column that has one, else the first
  std::string fastest;                   // that one's strategy
  std::optional<int64_t> crossover;      // of that strategy, in that group, along N
  int incorrect = 0, failed = 0, right = 0, trials = 0;
};

/// An axis that is neither rows nor columns, of which one value may be held.
struct OverviewHold {
  std::string axis;
  std::vector<std::string> values;
  std::string held;  // "": all of them, the best of which counts
};

/// Any two axes of a sweep: what is best, where it pays, whether it is right, what did not fit.
struct Overview {
  std::string rows, columns;
  Measure measure = Measure::speedup;
  std::vector<std::string> heads;  // of the columns, "N=8", by value
  std::vector<OverviewLine> lines;
  std::vector<OverviewHold> holds;
  double low = 1, high = 1;  // of all values

  /// The cell's value as a speedup that stands for its colour: 1 in the middle, 16 at the best.
  double shade(double value) const;
};

/// What the lines are sorted by.
struct OverviewSort {
  enum class By { cases, name, fastest, pays_from, right, column };
  By by = By::cases;  // in the order of the sweep's cases
  size_t column = 0;  // of By::column: the place of its head
  bool descending = false;
  bool operator==(const OverviewSort&) const = default;
};
/// Places of the lines in that order; lines without a value come last either way.
std::vector<size_t> sorted_lines(const Overview& overview, const OverviewSort& sort);

/// A filter that cannot be understood keeps everything.
Overview overview_of(const TrialTable& table, const std::vector<TableAxis>& axes,
                     const OverviewOptions& options);

}  // namespace wide
