#pragma once
#include <string>
#include <utility>
#include <vector>

#include "data/store/sweeps/browse.h"

namespace wide {

/// What the trials of a table differ in: "target", "N", "strategy" and so on, or an axis of their
/// shapes, as "T".
struct TableAxis {
  std::string name;
  std::vector<std::string> values;  // numbers ascending, words in the order they come
  std::vector<double> numbers;      // of the values, of an axis of numbers
  std::vector<int32_t> of_row;      // by the table's rows: which value; -1: it has none

  bool several() const { return values.size() > 1; }
  /// Has a place on a logarithmic axis.
  bool positive() const { return !numbers.empty() && numbers.front() >= 1; }
  /// "T=256", "linear".
  std::string label(size_t value) const;
};

/// Words first, then N, then the shapes' axes in the order they come.
std::vector<TableAxis> axes_of(const TrialTable& table);
/// Null where there is none of that name.
const TableAxis* find_axis(const std::vector<TableAxis>& axes, const std::string& name);

/// What a matrix has as rows and as columns where nobody chose: targets by N, or of one target the
/// two axes of its shapes that have more values than there are Ns, the longer one as columns.
std::pair<std::string, std::string> matrix_axes(const std::vector<TableAxis>& axes);
/// What a plot is along where nobody chose: N, or of one N the longest axis of the shapes.
std::string plot_axis(const std::vector<TableAxis>& axes);

}  // namespace wide
