#include "data/machine/environment.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>

#include "data/escape.h"
#include "data/machine/oom.h"

namespace wide {
namespace {

constexpr double kClockChange = 0.1, kTemperatureChange = 10;

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

/// The number that a file consists of, or `otherwise`.
double number_in(const std::filesystem::path& path, double otherwise) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? value : otherwise;
}

/// Visits the entries of a folder whose names start with `prefix`; none if there is no folder.
void for_each_in(const std::filesystem::path& folder, std::string_view prefix,
                 const std::function<void(const std::filesystem::path&)>& visit) {
  std::error_code gone;
  for (std::filesystem::directory_iterator it(folder, gone), end; it != end; it.increment(gone))
    if (it->path().filename().string().rfind(prefix, 0) == 0) visit(it->path());
}

/// Mean of all cores in /proc/cpuinfo, for systems without frequency scaling.
double mean_mhz(const std::string& root) {
  double sum = 0, cores = 0;
  for_each_in(root + "/sys/devices/system/cpu", "cpu", [&](const std::filesystem::path& core) {
    const double khz = number_in(core / "cpufreq/scaling_cur_freq", 0);
    if (khz <= 0) return;
    sum += khz / 1e3;
    ++cores;
  });
  if (cores > 0) return sum / cores;
  std::ifstream file(root + "/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("cpu MHz", 0) != 0) continue;
    sum += std::strtod(line.c_str() + line.find(':') + 1, nullptr);
    ++cores;
  }
  return cores > 0 ? sum / cores : 0;
}

double hottest_c(const std::string& root) {
  double hottest = 0;
  const auto look = [&](const std::filesystem::path& file) {
    hottest = std::max(hottest, number_in(file, 0) / 1e3);
  };
  for_each_in(root + "/sys/class/thermal", "thermal_zone",
              [&](const std::filesystem::path& zone) { look(zone / "temp"); });
  for_each_in(root + "/sys/class/hwmon", "hwmon", [&](const std::filesystem::path& chip) {
    for_each_in(chip, "temp", [&](const std::filesystem::path& file) {
      if (file.filename().string().find("_input") != std::string::npos) look(file);
    });
  });
  return hottest;
}

int64_t count_throttles(const std::string& root) {
  double sum = 0;
  bool known = false;
  for_each_in(root + "/sys/devices/system/cpu", "cpu", [&](const std::filesystem::path& core) {
    const double count = number_in(core / "thermal_throttle/core_throttle_count", -1);
    known = known || count >= 0;
    sum += std::max(0.0, count);
  });
  return known ? static_cast<int64_t>(sum) : -1;
}

}  // namespace

std::string machine_name(const Environment& e) {
  return fmt::format("{}: {}, {} core{}{}", e.host, e.cpu, e.cores, e.cores == 1 ? "" : "s",
                     e.gpu.empty() ? "" : ", " + e.gpu);
}

std::string hardware_of(const std::string& machine) {
  const size_t host = machine.find(": ");
  return host == std::string::npos ? machine : machine.substr(host + 2);
}

std::string utc_now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string processor_name() {
  const std::string name = field("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown" : name;
}

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

void read_processor(Environment& e, const std::string& root) {
  const std::string scaling = root + "/sys/devices/system/cpu/cpu0/cpufreq/";
  e.governor.clear();
  std::ifstream(scaling + "scaling_governor") >> e.governor;
  if (e.governor.empty()) e.governor = "unknown";
  e.mhz = mean_mhz(root);
  e.max_mhz = number_in(scaling + "cpuinfo_max_freq", 0) / 1e3;
  e.temperature_c = hottest_c(root);
  e.throttles = count_throttles(root);
}

std::vector<std::string> changes_between(const Environment& before, const Environment& after) {
  std::vector<std::string> changes;
  if (before.governor != after.governor)
    changes.push_back(fmt::format("governor: {}, was {}", after.governor, before.governor));
  if (before.cores != after.cores)
    changes.push_back(fmt::format("cores: {}, were {}", after.cores, before.cores));
  if (before.threads != after.threads)
    changes.push_back(fmt::format("threads: {}, were {}", after.threads, before.threads));
  if (before.mhz > 0 && std::abs(after.mhz / before.mhz - 1) >= kClockChange)
    changes.push_back(fmt::format("clock: {:.0f} MHz, was {:.0f}", after.mhz, before.mhz));
  if (before.max_mhz != after.max_mhz)
    changes.push_back(
        fmt::format("highest clock: {:.0f} MHz, was {:.0f}", after.max_mhz, before.max_mhz));
  if (std::abs(after.temperature_c - before.temperature_c) >= kTemperatureChange)
    changes.push_back(fmt::format("temperature: {:.0f} degrees, was {:.0f}", after.temperature_c,
                                  before.temperature_c));
  if (after.throttles > before.throttles && before.throttles >= 0)
    changes.push_back(fmt::format("throttled: {} times", after.throttles - before.throttles));
  if (before.gpu_state && after.gpu_state) {
    const GpuState &was = *before.gpu_state, &is = *after.gpu_state;
    if (is.throttled != was.throttled)
      changes.push_back(fmt::format("GPU held back by: {}, was {}",
                                    is.throttled.empty() ? "nothing" : is.throttled,
                                    was.throttled.empty() ? "nothing" : was.throttled));
    if (std::abs(is.temperature_c - was.temperature_c) >= kTemperatureChange)
      changes.push_back(fmt::format("GPU temperature: {:.0f} degrees, was {:.0f}", is.temperature_c,
                                    was.temperature_c));
    if (is.power_limit_w != was.power_limit_w)
      changes.push_back(
          fmt::format("GPU power: {:.0f} W, was {:.0f}", is.power_limit_w, was.power_limit_w));
  }
  return changes;
}

Environment capture_environment(const std::string& command, const std::string& version,
                                const std::string& git) {
  Environment e;
  e.cpu = processor_name();
  e.cores = usable_cores();
  e.threads = at::get_num_threads();
  read_processor(e);
  e.load = number_in("/proc/loadavg", 0);
  e.memory_bytes = kilobytes("MemTotal");
  e.libtorch = TORCH_VERSION;
  e.workbench = version;
  e.git = git;
  char host[256] = {};
  e.host = gethostname(host, sizeof host - 1) ? "unknown" : host;
  utsname system{};
  if (!uname(&system)) e.os = std::string(system.sysname) + " " + system.release;
  e.date = utc_now();
  e.command = command;
  return e;
}

ProcessMemory process_memory() {
  std::ifstream file("/proc/self/statm");
  int64_t mapped = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  file >> mapped >> resident >> shared >> text >> library >> data;
  const int64_t page = sysconf(_SC_PAGESIZE);
  return {mapped * page, resident * page, data * page};
}

int64_t available_memory() {
  int64_t bytes = kilobytes("MemAvailable");
  bytes = std::min(bytes, memory_left_in_groups().value_or(bytes));
  const ProcessMemory own = process_memory();
  for (const auto& [resource, taken] :
       {std::pair{RLIMIT_AS, own.mapped}, {RLIMIT_DATA, own.data}}) {
    rlimit most{};
    if (getrlimit(resource, &most) || most.rlim_cur == RLIM_INFINITY) continue;
    bytes = std::min(bytes, std::max<int64_t>(0, static_cast<int64_t>(most.rlim_cur) - taken));
  }
  return bytes;
}

std::string command_line(int argc, const char* const* argv) {
  std::string out;
  for (int i = 0; i < argc; ++i) {
    out += (i ? " " : "") + shell_word(argv[i]);
  }
  return out;
}

}  // namespace wide
