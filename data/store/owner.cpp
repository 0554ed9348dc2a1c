#include "data/store/owner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace wide {
namespace {

/// The scope in which process numbers are unique: this boot of this machine, this container.
std::string where() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64] = {};
  if (readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0) space[0] = 0;
  return fmt::format("{} {} {}", host, boot, space);
}

/// When a process was started, in ticks since the boot, as numbers of ended processes are reused.
/// "" if there is none.
std::string start_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // The second field, the program's name in parentheses, may itself hold spaces and parentheses.
  const size_t close = text.rfind(')');
  if (close == std::string::npos) return "";
  std::istringstream fields(text.substr(close + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i)
    if (i == 3 && (field == "Z" || field == "X")) return "";
  return fields ? field : "";
}

}  // namespace

std::string this_process() {
  const std::string pid = std::to_string(getpid());
  return fmt::format("{} {} {}", where(), pid, start_of(pid));
}

bool runs(const std::string& owner) {
  const std::string here = where() + " ";
  if (owner.compare(0, here.size(), here)) return false;
  std::istringstream rest(owner.substr(here.size()));
  std::string pid, start;
  return rest >> pid >> start && start_of(pid) == start;
}

}  // namespace wide
