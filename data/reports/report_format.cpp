#include "data/reports/report_format.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

std::vector<ReportFormat>& formats() {
  static std::vector<ReportFormat> list;
  return list;
}

[[noreturn]] void refuse(const std::string& path, int why) {
  throw Error(fmt::format("[{}] writing: got {}, expected a place for the report; try another "
                          "path",
                          printable(path), std::strerror(why)),
              1);
}

bool write_all(std::FILE* file, const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
}

/// A pipe or a device: nothing can be renamed over it.
bool is_special(const std::string& path) {
  struct stat status {};
  return !stat(path.c_str(), &status) && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

}  // namespace

bool add_report_format(ReportFormat format) {
  formats().push_back(std::move(format));
  // The order of static initialisers is the linker's; --help must not depend on it.
  std::sort(formats().begin(), formats().end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return true;
}

const std::vector<ReportFormat>& report_formats() { return formats(); }

void write_report(const std::string& path, const std::string& text) {
  if (path == "-") {
    if (!write_all(stdout, text)) refuse("stdout", errno);
    return;
  }
  const bool special = is_special(path);
  const std::string part = special ? path : path + ".part";
  std::FILE* file = std::fopen(part.c_str(), "wb");
  bool good = file && write_all(file, text);
  int why = errno;
  if (file && std::fclose(file)) {
    why = good ? errno : why;
    good = false;
  }
  if (good && !special && std::rename(part.c_str(), path.c_str())) {
    why = errno;
    good = false;
  }
  if (good) return;
  if (!special) std::remove(part.c_str());
  refuse(path, why);
}

}  // namespace wide
