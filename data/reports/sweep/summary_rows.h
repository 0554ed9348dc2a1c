#pragma once
#include <functional>
#include <vector>

#include "data/reports/sweep/report.h"

namespace wide {

/// Whether two cases go into one table: the same target, device, dtype, mode and phase.
bool same_table(const Case& a, const Case& b);

/// One line of a sweep's summary: the cases of one table on one kind of hardware.
struct SummaryRow {
  std::vector<const Case*> cases;
  /// At the largest N; of several shapes there the one whose best strategy gains least, so that the
  /// summary promises no more than each of them keeps.
  const Case* shown = nullptr;
  const Trial* best = nullptr;  // its fastest correct strategy
};

/// In the order of the cases. `also`, if given, must be true of the first case of a line and each
/// other one.
std::vector<SummaryRow> summary_rows(
    const std::vector<Case>& cases,
    const std::function<bool(const Case& first, const Case& other)>& also = {});

}  // namespace wide
