#pragma once
#include <string>
#include <vector>

namespace wide {

/// Seconds of processor time since the system started, over some cores.
struct CpuTimes {
  double busy_s = 0;   // in processes and interrupts, and taken by the host of a virtual machine
  double total_s = 0;  // idle included
};

/// The cores that this thread may run on.
std::vector<int> bound_cores();

/// Sums the lines of `cores` in the text of /proc/stat, whose numbers are ticks.
CpuTimes cpu_times(const std::string& stat, const std::vector<int>& cores, double ticks_per_s);

/// A measurement is disturbed if other processes used more than this share of the cores during
/// timing.
inline constexpr double kDisturbedShare = 0.1;

/// Measures how much other processes use the cores that this one may use.
class LoadWatch {
 public:
  LoadWatch();
  /// The share of the cores' time, 0 to 1, that other processes have used since this object was
  /// made. 0 if unknown, and within the first tenth of a second.
  double other_load() const;

 private:
  std::vector<int> cores_;
  CpuTimes before_;
  double own_s_ = 0;
};

}  // namespace wide
