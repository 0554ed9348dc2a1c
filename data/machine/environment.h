#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace wide {

/// Measured bandwidth of a working set.
struct MemoryLevel {
  double working_set = 0;  // bytes
  double bytes_per_s = 0;
};

/// Facts that a GPU's driver reports. 0 (-1 for counts) or empty: unknown.
struct GpuState {
  std::string driver, capability, compute_mode;  // "570.86", "9.0", "default"
  std::string tf32;                              // "on": float32 factors were rounded to TF32
  double mhz = 0, max_mhz = 0, memory_mhz = 0;
  double power_limit_w = 0, temperature_c = 0;
  std::string throttled;   // why its clocks were held back, "" where they were not
  int64_t processes = -1;  // with work on it, this one included
};

/// The machine and software that a measurement was made with. 0 (-1 for counts) or "unknown": the
/// system does not report it.
struct Environment {
  std::string cpu;
  int cores = 0;         // usable by this process
  int threads = 0;       // of LibTorch
  std::string governor;  // "unknown" if the system does not say
  int64_t memory_bytes = 0;
  double mhz = 0, max_mhz = 0;  // mean over the cores when captured, and the most allowed
  double temperature_c = 0;     // the hottest sensor
  int64_t throttles = -1;       // times a core was throttled since the system started
  double load = 0;              // processes that ran or waited, mean of the minute before
  std::map<std::string, double> peak_flops_per_s;  // measured, by dtype as "f32"
  double peak_bytes_per_s = 0;                     // memory bandwidth, measured; 0: unknown
  std::vector<MemoryLevel> bandwidth;              // measured, from the inner caches outwards
  double step_ns = 0;                              // of one operator call, measured; 0: unknown
  std::string gpu;                                 // empty: none was used
  std::optional<GpuState> gpu_state;
  std::string libtorch, workbench, git;
  std::string host, os, date, command;
};

/// `version` and `git` of the program come from its build.
Environment capture_environment(const std::string& command, const std::string& version,
                                const std::string& git);

/// Reads governor, clocks, temperature and throttling from the system's files below `root`; "" is
/// the real system.
void read_processor(Environment& environment, const std::string& root = "");

/// Changes of the environment that affect times, one line each: "governor: powersave, was
/// performance". Clocks must differ by 10 %, temperatures by 10 degrees.
std::vector<std::string> changes_between(const Environment& before, const Environment& after);

/// The machine of an environment in one line: "HOST: PROCESSOR, 2 cores, GPU".
std::string machine_name(const Environment& environment);
/// The hardware part of a machine's name, which decides times: all but the host.
std::string hardware_of(const std::string& machine);

/// The time, UTC, as ISO 8601.
std::string utc_now();

/// "AMD EPYC 7B13", or "unknown".
std::string processor_name();
/// Cores that this process may use.
int usable_cores();

/// Bytes of this process.
struct ProcessMemory {
  int64_t mapped = 0;    // address space, what RLIMIT_AS bounds
  int64_t resident = 0;  // in memory
  int64_t data = 0;      // its own and writable, what RLIMIT_DATA bounds
};
ProcessMemory process_memory();

/// Memory available to this process without swapping, within its container and limits.
int64_t available_memory();

/// The command line as it could be typed again.
std::string command_line(int argc, const char* const* argv);

}  // namespace wide
