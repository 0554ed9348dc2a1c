#pragma once
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"

namespace wide {

/// A table of one target's trials: N, strategy, time, speedups, error, verdict; then crossovers and
/// notes on baselines. `machine` is named above the table.
std::string cases_text(const std::vector<Case>& cases, const std::string& machine = "");

/// All tables of `cases`, in their order. Machines are named if there are several; else `machine`
/// is.
std::string tables_text(const std::vector<Case>& cases, const std::string& machine = "");

/// "3 min 20 s".
std::string duration_text(double seconds);

}  // namespace wide
