#pragma once
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"

namespace wide {

/// Whether two cases go into one table: the same target, device, dtype, mode and phase.
bool same_table(const Case& a, const Case& b);

/// The trials of one target: N, strategy, time, speedups, error, verdict; then its crossovers and
/// what is to be said of its baselines. `machine` is named above them.
std::string cases_text(const std::vector<Case>& cases, const std::string& machine = "");

/// All tables of `cases`, in the order in which they come; machines are named where they stand
/// apart, or `machine`.
std::string tables_text(const std::vector<Case>& cases, const std::string& machine = "");

/// "3 min 20 s".
std::string duration_text(double seconds);

}  // namespace wide
