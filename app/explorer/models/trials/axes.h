#pragma once
#include <string>
#include <utility>
#include <vector>

#include "data/store/sweeps/browse.h"

namespace wide {

/// A property in which trials of a table differ: "target", "N", "strategy" and so on, or an axis of
/// their shapes such as "T".
struct TableAxis {
  std::string name;
  std::vector<std::string> values;  // numbers ascending, words in order of appearance
  std::vector<double> numbers;      // the values, if they are numbers
  std::vector<int32_t> of_row;      // by row of the table: the index of its value; -1: none

  bool several() const { return values.size() > 1; }
  /// Whether the values fit on a logarithmic axis.
  bool positive() const { return !numbers.empty() && numbers.front() >= 1; }
  /// "T=256", "linear".
  std::string label(size_t value) const;
};

/// Axes of words first, then N, then the shapes' axes in order of appearance.
std::vector<TableAxis> axes_of(const TrialTable& table);
/// Nullptr if there is no axis of that name.
const TableAxis* find_axis(const std::vector<TableAxis>& axes, const std::string& name);

/// The default rows and columns of a matrix: targets by N, or for a single target the two axes of
/// its shapes, if they have more values than there are Ns, the longer one as columns.
std::pair<std::string, std::string> matrix_axes(const std::vector<TableAxis>& axes);
/// The default axis of a plot: N, or if there is one N only, the longest axis of the shapes.
std::string plot_axis(const std::vector<TableAxis>& axes);

}  // namespace wide
