#include "data/reports/report_format.h"

#include <cstdio>

#include "data/bytes/part_file.h"
#include "engine/program/registry.h"

namespace wide {
bool add_report_format(ReportFormat format) {
  return enter(std::move(format), &ReportFormat::name);
}
const std::vector<ReportFormat>& report_formats() { return registry<ReportFormat>(); }

void write_report(const std::string& path, const std::string& text) {
  if (path != "-") return write_file(path, text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);  // the end of the command tells whether stdout took it
}

}  // namespace wide
