#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/preset.h"
#include "data/reports/sweep/report.h"

namespace wide {

struct SummaryOptions {
  int64_t top = 0;  // number of rows, the largest speedups first; 0: all, in their order
  /// Published speedups to compare with, by target and N, and their source.
  std::map<std::string, std::map<int64_t, double>> published;
  std::string published_note;
  std::vector<PresetNetwork> networks;  // users' own; the command proposed next names their files
};

/// A line for each of `summary_rows`, where the time went, what is wrong, and what to do next.
/// Fits a screen with all targets there are.
std::string summary_text(const SweepReport& report, const SummaryOptions& options = {});

}  // namespace wide
