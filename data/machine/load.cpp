#include "data/machine/load.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace wide {
namespace {

constexpr double kLeastS = 0.1;  // /proc/stat counts in hundredths of a second

CpuTimes times_now(const std::vector<int>& cores) {
  std::ifstream file("/proc/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return cpu_times(text, cores, static_cast<double>(sysconf(_SC_CLK_TCK)));
}

double own_seconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& t : {usage.ru_utime, usage.ru_stime})
      seconds += static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  }
  return seconds;
}

}  // namespace

std::vector<int> bound_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

CpuTimes cpu_times(const std::string& stat, const std::vector<int>& cores, double ticks_per_s) {
  CpuTimes times;
  std::istringstream lines(stat);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name.rfind("cpu", 0) != 0 || name == "cpu") continue;
    if (std::find(cores.begin(), cores.end(), std::atoi(name.c_str() + 3)) == cores.end()) continue;
    // user nice system idle iowait irq softirq steal; time of guests is in user already.
    constexpr int kIdle = 3, kWait = 4, kColumns = 8;
    double ticks = 0;
    for (int column = 0; column < kColumns && words >> ticks; ++column) {
      times.total_s += ticks / ticks_per_s;
      if (column != kIdle && column != kWait) times.busy_s += ticks / ticks_per_s;
    }
  }
  return times;
}

LoadWatch::LoadWatch() : cores_(bound_cores()), before_(times_now(cores_)), own_s_(own_seconds()) {}

double LoadWatch::other_load() const {
  const CpuTimes after = times_now(cores_);
  const double total = after.total_s - before_.total_s;
  if (cores_.empty() || total < kLeastS * static_cast<double>(cores_.size())) return 0;
  const double others = after.busy_s - before_.busy_s - (own_seconds() - own_s_);
  return std::clamp(others / total, 0.0, 1.0);
}

}  // namespace wide
