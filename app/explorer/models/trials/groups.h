#pragma once
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"
#include "data/store/sweeps/browse.h"

namespace wide {

/// The trials of one plot: they differ in mode, strategy and along one axis only, and were measured
/// on one kind of hardware, or on one machine if a case was measured on several.
struct Group {
  std::string target, shape, dtype, device, phase;  // the shape without the axis
  std::string machine;         // or its hardware, as in `Apart`; "": all machines
  std::string axis = "N";      // or an axis of the shapes, such as "T"
  int64_t n = 0;               // N of all trials, if the axis is not N
  std::vector<uint32_t> rows;  // rows of the table, ascending, with baselines
  bool operator==(const Group& other) const {
    return target == other.target && shape == other.shape && dtype == other.dtype &&
           device == other.device && phase == other.phase && machine == other.machine &&
           axis == other.axis && n == other.n;
  }
  std::string text() const;  // "B16 D256 · f32 · cpu · forward"
  /// A row's value on the group's axis.
  int64_t place(const TrialTable& table, const TrialRow& row) const;
};
/// Groups a table's trials along `axis`; trials whose shapes lack it along N.
std::vector<Group> groups_of(const TrialTable& table, const std::string& axis = "N");
/// The index of the group that holds this row.
size_t group_with(const std::vector<Group>& groups, uint32_t row);

/// The cases of a group, as a report has them but without samples.
std::vector<Case> cases_of(const TrialTable& table, const Group& group);

}  // namespace wide
