// What a GPU's driver says, by a driver that is none.
#include "data/machine/gpu.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "data/reports/sweep/report_json.h"
#include "tests/device/fake_runtime.h"

namespace wide::gpu_test {
namespace {

int begun = 0;
std::string asked_for;

int begin() { return ++begun, 0; }
int end() { return --begun, 0; }
int version(char* text, unsigned size) {
  std::strncpy(text, "570.86", size);
  return 0;
}
int handle(const char* bus, void** device) {
  asked_for = bus;
  *device = &begun;
  return 0;
}
int clock(void* device, int kind, unsigned* mhz) {
  *mhz = kind == 2 ? 2619 : 1755;
  return device == &begun ? 0 : 1;
}
int max_clock(void*, int, unsigned* mhz) { return *mhz = 1980, 0; }
int power(void*, unsigned* milliwatts) { return *milliwatts = 700000, 0; }
int temperature(void*, int, unsigned* degrees) { return *degrees = 61, 0; }
int mode(void*, int* mode) { return *mode = 3, 0; }
int reasons(void*, unsigned long long* bits) { return *bits = 0x1 | 0x4 | 0x20, 0; }
int processes(void*, unsigned* count, void* list) {
  *count = 2;
  return list ? 0 : 7;
}

void* symbol(const char* name) {
  const std::pair<const char*, void*> all[] = {
      {"nvmlInit_v2", reinterpret_cast<void*>(&begin)},
      {"nvmlShutdown", reinterpret_cast<void*>(&end)},
      {"nvmlSystemGetDriverVersion", reinterpret_cast<void*>(&version)},
      {"nvmlDeviceGetHandleByPciBusId_v2", reinterpret_cast<void*>(&handle)},
      {"nvmlDeviceGetClockInfo", reinterpret_cast<void*>(&clock)},
      {"nvmlDeviceGetMaxClockInfo", reinterpret_cast<void*>(&max_clock)},
      {"nvmlDeviceGetEnforcedPowerLimit", reinterpret_cast<void*>(&power)},
      {"nvmlDeviceGetTemperature", reinterpret_cast<void*>(&temperature)},
      {"nvmlDeviceGetComputeMode", reinterpret_cast<void*>(&mode)},
      {"nvmlDeviceGetCurrentClocksThrottleReasons", reinterpret_cast<void*>(&reasons)},
      {"nvmlDeviceGetComputeRunningProcesses_v3", reinterpret_cast<void*>(&processes)}};
  for (const auto& [known, function] : all)
    if (std::strcmp(known, name) == 0) return function;
  return nullptr;
}

TEST(Gpu, ItsDriverIsAskedByItsBus) {
  const GpuState state = read_gpu({"H100", "00000000:65:00.0", "9.0"}, &symbol);
  EXPECT_EQ(asked_for, "00000000:65:00.0");
  EXPECT_EQ(state.driver, "570.86");
  EXPECT_EQ(state.capability, "9.0");
  EXPECT_EQ(state.mhz, 1755);
  EXPECT_EQ(state.max_mhz, 1980);
  EXPECT_EQ(state.memory_mhz, 2619);
  EXPECT_EQ(state.power_limit_w, 700);
  EXPECT_EQ(state.temperature_c, 61);
  EXPECT_EQ(state.compute_mode, "exclusive process");
  EXPECT_EQ(state.throttled, "power cap, temperature");
  EXPECT_EQ(state.processes, 2);
  EXPECT_EQ(begun, 0) << "the library is let go of";
}

TEST(Gpu, ADriverThatKnowsNothingIsNoError) {
  const GpuState state = read_gpu({"H100", "bus", "9.0"}, [](const char*) { return nullptr; });
  EXPECT_EQ(state.driver, "");
  EXPECT_EQ(state.processes, -1);
}

TEST(Gpu, IsInTheEnvironmentOfWhatUsesIt) {
  Environment e;
  add_gpu(e, c10::kCPU, &symbol);
  EXPECT_EQ(e.gpu, "");
  EXPECT_FALSE(to_json(e).contains("gpu_state"));
  EXPECT_EQ(device_key(c10::kCPU), "cpu");
  const FakeRuntime fake;
  allow_tf32(true);
  add_gpu(e, c10::kCPU, &symbol);
  const auto json = to_json(e);
  EXPECT_EQ(json.at("gpu"), "Fake GPU");
  EXPECT_FALSE(json.contains("gpu_note"));
  EXPECT_EQ(json.at("gpu_state").at("driver"), "570.86");
  EXPECT_EQ(json.at("gpu_state").at("tf32"), "on");
  EXPECT_NE(device_key(c10::kCPU).find("Fake GPU"), std::string::npos);
  EXPECT_NE(device_key(c10::kCPU).find("tf32"), std::string::npos);
  allow_tf32(false);
  EXPECT_EQ(device_key(c10::kCPU).find("tf32"), std::string::npos);
  add_gpu(e, c10::kCPU, &symbol);
  EXPECT_EQ(e.gpu_state->tf32, "off");
}

TEST(Gpu, ChangesOfItAreSaid) {
  Environment before, after;
  before.gpu_state.emplace();
  before.gpu_state->temperature_c = 50;
  before.gpu_state->power_limit_w = 700;
  after.gpu_state = before.gpu_state;
  EXPECT_TRUE(changes_between(before, after).empty());
  after.gpu_state->throttled = "power cap";
  after.gpu_state->temperature_c = 80;
  after.gpu_state->power_limit_w = 350;
  EXPECT_EQ(changes_between(before, after),
            (std::vector<std::string>{"GPU held back by: power cap, was nothing",
                                      "GPU temperature: 80 degrees, was 50",
                                      "GPU power: 350 W, was 700"}));
}

}  // namespace
}  // namespace wide::gpu_test
