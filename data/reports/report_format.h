#pragma once
#include <functional>
#include <string>
#include <vector>

#include "data/reports/sweep/figures.h"
#include "data/reports/sweep/report.h"

namespace wide {

/// A kind of file that a sweep's report is written as. One file each under data/reports/formats,
/// registered by itself at static initialisation.
struct ReportFormat {
  std::string name;     // also its option: "csv" is --csv
  std::string summary;  // one line, for --help
  std::function<std::string(const SweepReport&, const FigureOptions&)> text;
};
bool add_report_format(ReportFormat format);
/// Sorted by name.
const std::vector<ReportFormat>& report_formats();

/// Writes all or nothing; "-" is stdout. Throws Error with exit code 1 where it cannot.
void write_report(const std::string& path, const std::string& text);

}  // namespace wide
