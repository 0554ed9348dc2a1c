// What a device has, and who else uses it: its memory, its cache, other processes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "app/fuse/subject.h"
#include "app/gpu/stage.h"
#include "data/machine/gpu.h"
#include "engine/device.h"
#include "engine/measure/peaks.h"
#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

class SimulatedLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    install();
    Streams::get().reset(1);
  }
  void TearDown() override {
    Memory::get().set_limit(int64_t{4} << 30);
    Streams::get().reset(1);
  }
  static void leave(int64_t bytes) { Memory::get().set_limit(Memory::get().allocated() + bytes); }
};

/// The host's memory would do for all of them.
TEST_F(SimulatedLimits, AFusionIsHeldToTheMemoryOfItsDevice) {
  SubjectOptions options;
  options.model = "linear";
  options.device = "simulated";
  options.n = "100";
  EXPECT_GE(Subject(options).largest_n(), 100);
  leave(1 << 20);
  try {
    const Subject subject(options);
    FAIL() << "taken, of at most " << subject.largest_n();
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code(), 5);
    const std::string text = e.what();
    EXPECT_NE(text.find("[linear] memory: got "), std::string::npos) << text;
    EXPECT_NE(text.find(" for n=100, expected at most the 1.0 MB available; try "),
              std::string::npos)
        << text;
  }
}

TEST_F(SimulatedLimits, PeaksAreThoseOfItsCacheAndOfItsMemory) {
  leave(64 << 20);
  const Peaks peaks = measure_peaks(kDevice, 1);
  ASSERT_EQ(peaks.bandwidth.size(), 2u);
  EXPECT_EQ(peaks.bandwidth[0].working_set, 1 << 19) << "half its cache of 1 MiB";
  EXPECT_GT(peaks.bandwidth[1].working_set, 8 << 20);
  EXPECT_LE(peaks.bandwidth[1].working_set, 32 << 20) << "half of what is free";
  for (const Peaks::Bandwidth& level : peaks.bandwidth) EXPECT_GT(level.bytes_per_s, 0);
  EXPECT_EQ(Streams::get().violations, std::vector<std::string>{});
}

/// A product of 6144 x 6144 in float64 would take a gigabyte.
TEST_F(SimulatedLimits, PeaksAreMeasuredWithinTheMemoryThatIsFree) {
  const int64_t before = Memory::get().allocated();
  leave(8 << 20);
  const int64_t peak =
      count_peak_bytes(kDevice, [] { EXPECT_GT(measure_peaks(kDevice, 1).step_ns, 0); });
  EXPECT_LE(peak, 5 << 20) << "a little over half of what is free";
  EXPECT_EQ(Memory::get().allocated(), before);
}

TEST_F(SimulatedLimits, AFailedAssertionInAKernelIsNoticedAndEndsItsProcessAlone) {
  ::testing::internal::CaptureStdout();
  Steps steps(kDevice);
  find_gpu_stage("assertions").run(steps);
  std::istringstream said(::testing::internal::GetCapturedStdout());
  int done = 0;
  for (std::string line; std::getline(said, line);) {
    const auto step = nlohmann::json::parse(line);
    if (!step.contains("ok")) continue;
    EXPECT_TRUE(step.at("ok")) << line;
    ++done;
  }
  EXPECT_EQ(done, 2);
}

TEST_F(SimulatedLimits, OtherProcessesAreThoseBesideThisOne) {
  static unsigned at_work;
  const DriverSymbols driver = [](const char* name) -> void* {
    const auto nothing = [] { return 0; };
    const auto handle = [](const char*, void** device) { return *device = nullptr, 0; };
    const auto processes = [](void*, unsigned* count, void*) { return *count = at_work, 7; };
    const std::string called = name;
    if (called == "nvmlInit_v2") return reinterpret_cast<void*>(+nothing);
    if (called == "nvmlDeviceGetHandleByPciBusId_v2") return reinterpret_cast<void*>(+handle);
    if (called == "nvmlDeviceGetComputeRunningProcesses_v3")
      return reinterpret_cast<void*>(+processes);
    return nullptr;
  };
  at_work = 3;
  EXPECT_EQ(others_on(kDevice, driver), 2);
  EXPECT_EQ(others_on(c10::kCPU, driver), 0);
  at_work = 0;  // a container may not be told of its own
  EXPECT_EQ(others_on(kDevice, driver), 0);
  EXPECT_EQ(others_on(kDevice, [](const char*) -> void* { return nullptr; }), 0);
}

}  // namespace
}  // namespace wide::simulated
