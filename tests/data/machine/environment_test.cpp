#include "data/machine/environment.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/machine/load.h"
#include "data/machine/peaks.h"
#include "tests/data/python.h"

namespace wide::environment_test {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  write_text(path, text);
}

TEST(Environment, MemoryEndsAtTheProcessesOwnLimits) {
  constexpr int64_t kLeft = int64_t{200} << 20;
  ASSERT_GT(available_memory(), kLeft);
  for (const auto& [resource, taken] : {std::pair{RLIMIT_AS, process_memory().mapped},
                                        std::pair{RLIMIT_DATA, process_memory().data}}) {
    rlimit before{};
    ASSERT_EQ(getrlimit(resource, &before), 0);
    rlimit short_of = before;
    short_of.rlim_cur = static_cast<rlim_t>(taken + kLeft);
    ASSERT_EQ(setrlimit(resource, &short_of), 0);
    EXPECT_LE(available_memory(), kLeft);
    EXPECT_GT(available_memory(), kLeft / 2);
    ASSERT_EQ(setrlimit(resource, &before), 0);
  }
  EXPECT_GT(available_memory(), kLeft);
}

TEST(Environment, ProcessorIsReadFromTheSystemsFiles) {
  const Scratch scratch;
  const std::string root = scratch / "root", cpu = root + "/sys/devices/system/cpu/";
  Environment e;
  read_processor(e, root);
  EXPECT_EQ(e.governor, "unknown");
  EXPECT_EQ(e.mhz, 0);
  EXPECT_EQ(e.temperature_c, 0);
  EXPECT_EQ(e.throttles, -1);

  put(root + "/proc/cpuinfo", "cpu MHz\t\t: 2000.0\nflags : x\ncpu MHz\t\t: 3000.0\n");
  read_processor(e, root);
  EXPECT_DOUBLE_EQ(e.mhz, 2500);
  put(cpu + "cpu0/cpufreq/scaling_governor", "powersave\n");
  put(cpu + "cpu0/cpufreq/cpuinfo_max_freq", "4000000\n");
  put(cpu + "cpu0/cpufreq/scaling_cur_freq", "1000000\n");
  put(cpu + "cpu1/cpufreq/scaling_cur_freq", "2000000\n");
  put(cpu + "cpu0/thermal_throttle/core_throttle_count", "3\n");
  put(cpu + "cpu1/thermal_throttle/core_throttle_count", "4\n");
  put(root + "/sys/class/thermal/thermal_zone0/temp", "45000\n");
  put(root + "/sys/class/hwmon/hwmon1/temp2_input", "61500\n");
  put(root + "/sys/class/hwmon/hwmon1/temp2_crit", "99000\n");
  read_processor(e, root);
  EXPECT_EQ(e.governor, "powersave");
  EXPECT_DOUBLE_EQ(e.mhz, 1500);
  EXPECT_DOUBLE_EQ(e.max_mhz, 4000);
  EXPECT_DOUBLE_EQ(e.temperature_c, 61.5);
  EXPECT_EQ(e.throttles, 7);
}

TEST(Environment, ChangesAreWhatMatters) {
  Environment before;
  before.governor = "performance";
  before.mhz = 3000;
  before.temperature_c = 50;
  before.throttles = 7;
  before.cores = 8;
  Environment after = before;
  after.mhz = 2900;
  after.temperature_c = 55;
  EXPECT_TRUE(changes_between(before, after).empty());
  after.governor = "powersave";
  after.mhz = 2000;
  after.temperature_c = 90;
  after.throttles = 9;
  after.cores = 4;
  EXPECT_EQ(changes_between(before, after),
            (std::vector<std::string>{"governor: powersave, was performance", "cores: 4, were 8",
                                      "clock: 2000 MHz, was 3000",
                                      "temperature: 90 degrees, was 50", "throttled: 2 times"}));
}

TEST(Load, CountsTheCoresItIsAskedFor) {
  const std::string stat =
      "cpu  9 9 9 9 9 9 9 9 9 9\n"
      "cpu0 100 20 30 400 50 6 7 8 99 0\n"
      "cpu1 1 1 1 1 1 1 1 1 0 0\n"
      "cpu11 1000 0 0 0 0 0 0 0 0 0\n"
      "intr 5 5 5\n";
  const CpuTimes first = cpu_times(stat, {0}, 100);
  EXPECT_DOUBLE_EQ(first.busy_s, 1.71);   // user nice system irq softirq steal
  EXPECT_DOUBLE_EQ(first.total_s, 6.21);  // with idle and waiting; guests are in user already
  EXPECT_DOUBLE_EQ(cpu_times(stat, {0, 11}, 100).busy_s, 11.71);
  EXPECT_DOUBLE_EQ(cpu_times(stat, {}, 100).total_s, 0);
}

void spin(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(Load, SeesAnotherProcessAndNotItself) {
  if (usable_cores() < 2) GTEST_SKIP() << "needs two cores";
  const LoadWatch alone;
  EXPECT_EQ(alone.other_load(), 0);  // too short to say
  spin(0.6);
  const double without = alone.other_load();

  const pid_t child = fork();
  if (child == 0) {
    spin(10);
    _exit(0);
  }
  usleep(20000);
  const LoadWatch watch;
  usleep(800000);
  const double with = watch.other_load();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const double core = 1.0 / usable_cores();
  // On a machine that others use as well the child may get less than a core, and `without` is
  // already high: then only that it is seen at all.
  EXPECT_GT(with, 0.3 * core);
  EXPECT_LE(with, 1);
  EXPECT_LE(without, 1 - 0.3 * core);
}

TEST(MachinePeaks, AreKeptUntilMeasuredAgain) {
  const Scratch scratch;
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before ? before : "";
  setenv("XDG_CACHE_HOME", scratch.path().c_str(), 1);
  const std::string file = cache_folder() + "/peaks.json";
  const Peaks first = machine_peaks(c10::kCPU, 1);
  EXPECT_TRUE(fs::exists(file));
  const Peaks again = machine_peaks(c10::kCPU, 1);
  EXPECT_EQ(first.step_ns, again.step_ns);  // to the last bit: read, not measured
  EXPECT_EQ(first.flops_per_s, again.flops_per_s);
  EXPECT_EQ(first.memory_bytes_per_s(), again.memory_bytes_per_s());
  EXPECT_EQ(first.bandwidth.size(), again.bandwidth.size());

  Environment e;
  add_peaks(e, first);
  EXPECT_EQ(e.peak_flops_per_s.at("f32"), first.flops_per_s.at(at::kFloat));
  EXPECT_EQ(e.peak_bytes_per_s, first.memory_bytes_per_s());
  ASSERT_EQ(e.bandwidth.size(), first.bandwidth.size());
  EXPECT_EQ(e.bandwidth.front().working_set, first.bandwidth.front().working_set);
  EXPECT_EQ(e.bandwidth.front().bytes_per_s, first.bandwidth.front().bytes_per_s);
  EXPECT_EQ(e.step_ns, first.step_ns);

  // What was taken beside other programs serves for a while, then it is measured anew.
  auto kept_there = nlohmann::json::parse(read_text(file));
  for (auto& [key, entry] : kept_there.items())
    if (entry.is_object()) {
      entry["disturbed"] = true;
      entry["step_ns"] = 1e9;
      entry["measured_s"] = std::time(nullptr);
    }
  write_text(file, kept_there.dump());
  EXPECT_EQ(machine_peaks(c10::kCPU, 1).step_ns, 1e9);
  for (auto& [key, entry] : kept_there.items())
    if (entry.is_object()) entry["measured_s"] = std::time(nullptr) - 3600;
  write_text(file, kept_there.dump());
  EXPECT_LT(machine_peaks(c10::kCPU, 1).step_ns, 1e9);

  for (const char* broken : {"{\"schema\": 1, broken", "{\"schema\": \"x\"}", "[]"}) {
    write_text(file, broken);
    EXPECT_GT(machine_peaks(c10::kCPU, 1).step_ns, 0) << broken;  // measured over it
  }
  setenv("XDG_CACHE_HOME", "/proc/none", 1);
  const double once = machine_peaks(c10::kCPU, 2).step_ns;
  EXPECT_EQ(machine_peaks(c10::kCPU, 2).step_ns, once) << "where no file can be written";
  if (before)
    setenv("XDG_CACHE_HOME", kept.c_str(), 1);
  else
    unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace wide::environment_test
