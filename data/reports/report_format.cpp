#include "data/reports/report_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "data/bytes/part_file.h"
#include "engine/error.h"

namespace wide {
namespace {

std::vector<ReportFormat>& formats() {
  static std::vector<ReportFormat> list;
  return list;
}

}  // namespace

bool add_report_format(ReportFormat format) {
  formats().push_back(std::move(format));
  // Sorted, as the linker chooses the order of static initialisers; --help must not depend on it.
  std::sort(formats().begin(), formats().end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return true;
}

const std::vector<ReportFormat>& report_formats() { return formats(); }

void write_report(const std::string& path, const std::string& text) {
  if (path != "-") {
    PartFile file(path);
    file.write(text.data(), text.size());
    return file.commit();
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout))
    throw Error(fmt::format("[stdout] writing: got {}, expected a place for the report; try a file",
                            std::strerror(errno)),
                1);
}

}  // namespace wide
