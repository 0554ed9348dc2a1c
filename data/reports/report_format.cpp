#include "data/reports/report_format.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "data/bytes/part_file.h"
#include "engine/error.h"
#include "engine/program/registry.h"

namespace wide {
bool add_report_format(ReportFormat format) {
  return enter(std::move(format), &ReportFormat::name);
}
const std::vector<ReportFormat>& report_formats() { return registry<ReportFormat>(); }

void write_report(const std::string& path, const std::string& text) {
  if (path != "-") return write_file(path, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout))
    throw Error(fmt::format("[stdout] writing: got {}, expected a place for the report; try a file",
                            std::strerror(errno)),
                1);
}

}  // namespace wide
