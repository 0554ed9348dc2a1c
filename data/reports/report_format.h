#pragma once
#include <functional>
#include <string>
#include <vector>

#include "data/reports/sweep/figures.h"
#include "data/reports/sweep/report.h"

namespace wide {

/// A file format of sweeps' reports. Each is one file in data/reports/formats, which registers
/// itself at static initialisation.
struct ReportFormat {
  std::string name;     // also its option: "csv" is --csv
  std::string summary;  // one line, for --help
  std::function<std::string(const SweepReport&, const FigureOptions&)> text;
};
bool add_report_format(ReportFormat format);
/// All formats, sorted by name.
const std::vector<ReportFormat>& report_formats();

/// Writes all or nothing; throws Error with exit code 1 on failure. "-" is stdout, whose errors are
/// reported when the command ends.
void write_report(const std::string& path, const std::string& text);

}  // namespace wide
