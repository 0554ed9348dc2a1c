#include "data/environment.h"

#include <ATen/Parallel.h>
#include <sched.h>
#include <sys/utsname.h>
#include <torch/version.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <string_view>

namespace wide {
namespace {

/// The text after "key :" in a file of such lines.
std::string field(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

int64_t kilobytes(const char* key) {
  const std::string text = field("/proc/meminfo", key);
  return text.empty() ? 0 : std::stoll(text) * 1024;
}

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

Environment capture_environment(const std::string& command, const std::string& version,
                                const std::string& git) {
  Environment e;
  e.cpu = field("/proc/cpuinfo", "model name");
  if (e.cpu.empty()) e.cpu = "unknown";
  e.cores = usable_cores();
  e.threads = at::get_num_threads();
  std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") >> e.governor;
  if (e.governor.empty()) e.governor = "unknown";
  e.memory_bytes = kilobytes("MemTotal");
  e.libtorch = TORCH_VERSION;
  e.workbench = version;
  e.git = git;
  char host[256] = {};
  e.host = gethostname(host, sizeof host - 1) ? "unknown" : host;
  utsname system{};
  if (!uname(&system)) e.os = std::string(system.sysname) + " " + system.release;
  e.date = now();
  e.command = command;
  return e;
}

int64_t available_memory() {
  int64_t bytes = kilobytes("MemAvailable");
  // A container may be allowed less than the machine has.
  std::ifstream limit_file("/sys/fs/cgroup/memory.max"), used_file("/sys/fs/cgroup/memory.current");
  int64_t limit = 0, used = 0;
  if (limit_file >> limit && used_file >> used && limit > used && limit - used < bytes)
    bytes = limit - used;
  return bytes;
}

std::string command_line(int argc, const char* const* argv) {
  std::string out;
  for (int i = 0; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool plain =
        !argument.empty() && argument.find_first_not_of(
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
                                 "qrstuvwxyz0123456789_-./=,:+@%") == std::string::npos;
    std::string quoted = argument;
    for (size_t at = 0; (at = quoted.find('\'', at)) != std::string::npos; at += 4)
      quoted.replace(at, 1, "'\\''");
    out += (i ? " " : "") + (plain ? argument : "'" + quoted + "'");
  }
  return out;
}

}  // namespace wide
