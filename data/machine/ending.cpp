#include "data/machine/ending.h"

#include <fmt/format.h>

#include "data/text.h"

namespace wide {

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{} ({})", name, sigdescr_np(signal))
              : fmt::format("signal {}", signal);
}

std::string last_line(const std::string& printed) {
  const size_t last = printed.find_last_not_of(" \n");
  if (last == std::string::npos) return "";
  const size_t before = printed.rfind('\n', last);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return printable(printed.substr(begin, last + 1 - begin), 200);
}

}  // namespace wide
