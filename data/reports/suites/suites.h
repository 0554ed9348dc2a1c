#pragma once
#include <string>
#include <vector>

#include "data/plot/figure.h"
#include "data/reports/sweep/report.h"

namespace wide {

/// A file of a suite's results.
struct SuiteFile {
  std::string name, text;
};

/// A page of plots; `name` has no extension yet.
struct SuitePlots {
  std::string name, title, footer;
  std::vector<Figure> figures;
};

struct SuitePages {
  std::vector<SuiteFile> files;
  std::vector<SuitePlots> plots;
};

/// The suites of a sweep as their own CSV files, one Markdown page and plots (see
/// presets/README.md). Throws Error if the sweep has none of their targets.
SuitePages suite_pages(const SweepReport& report);

}  // namespace wide
