#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/reports/report.h"

namespace wide {

/// Whether two cases go into one table: the same target, device, dtype, mode and phase.
bool same_table(const Case& a, const Case& b);

/// The trials of one target: N, strategy, time, speedups, error, verdict; then its crossovers.
std::string target_text(const std::vector<Case>& cases);

struct SummaryOptions {
  int64_t top = 0;  // rows shown, the largest speedups first; 0: all, in their order
  /// Figures of others to set beside ours: target to N to speedup, and where they come from.
  std::map<std::string, std::map<int64_t, double>> published;
  std::string published_note;
};

/// One line per target at its largest N, where the time went, what is wrong, and what to do next.
/// Fits a screen with all targets there are.
std::string summary_text(const SweepReport& report, const SummaryOptions& options = {});

/// "3 min 20 s".
std::string duration_text(double seconds);

}  // namespace wide
