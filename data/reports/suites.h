#pragma once
#include <string>
#include <vector>

#include "data/reports/report.h"

namespace wide {

/// A file that a suite is written up in.
struct SuiteFile {
  std::string name, text;
};

/// The suites of a sweep as their own CSV files, one Markdown page and SVG plots (see
/// presets/README.md). Throws Error where the sweep has none of their targets.
std::vector<SuiteFile> suite_files(const SweepReport& report);

}  // namespace wide
