// Where a sweep runs when nobody says so.
#include <gtest/gtest.h>

#include "app/options.h"
#include "app/sweep/cases.h"
#include "app/worker/protocol.h"
#include "engine/compile.h"
#include "engine/device.h"

#include <nlohmann/json.hpp>

namespace wide::sweep_devices_test {
namespace {

/// A GPU that is there and does nothing.
class OneGpu final : public DeviceRuntime {
 public:
  explicit OneGpu(int count) : count_(count) {}
  int count() const override { return count_; }
  std::string why_none() const override { return "CUDA_VISIBLE_DEVICES is \"\""; }
  void synchronize(c10::Device) override {}
  std::unique_ptr<DeviceTimer> timer(c10::Device) override { return nullptr; }
  Work on_streams(c10::Device, std::vector<Work>, int) override { return {}; }
  std::unique_ptr<DeviceGraph> graph(c10::Device) override { return nullptr; }
  DeviceMemory memory(c10::Device) override { return {}; }
  void reset_peak(c10::Device) override {}
  void release_memory(c10::Device) override {}
  DeviceFacts facts(c10::Device) override { return {}; }

 private:
  int count_;
};

class SweepDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!unavailable(c10::kCUDA)) GTEST_SKIP() << "there is a GPU";
  }
  void TearDown() override { add_device_runtime(c10::kCUDA, nullptr); }
  static std::set<std::string> devices_of(const std::string& preset) {
    std::set<std::string> devices;
    for (const SweepCase& c : sweep_cases(find_preset(preset), {})) devices.insert(c.device.str());
    return devices;
  }
};

TEST_F(SweepDevices, AutoIsTheCpuAndTheGpuWhereThereIsOne) {
  EXPECT_EQ(devices_of("quick"), (std::set<std::string>{"cpu"}));
  add_device_runtime(c10::kCUDA, std::make_unique<OneGpu>(0));
  EXPECT_EQ(devices_of("quick"), (std::set<std::string>{"cpu"}));
  EXPECT_EQ(why_none(c10::kCUDA), "CUDA_VISIBLE_DEVICES is \"\"");
  EXPECT_NE(unavailable(c10::kCUDA)->find("(CUDA_VISIBLE_DEVICES is \"\")"), std::string::npos);
  add_device_runtime(c10::kCUDA, std::make_unique<OneGpu>(1));
  EXPECT_EQ(why_none(c10::kCUDA), "");
  EXPECT_EQ(devices_of("quick"), (std::set<std::string>{"cpu", "cuda:0"}));
  EXPECT_EQ(devices_of("ci"), (std::set<std::string>{"cpu"}));
  EXPECT_EQ(expand_devices({"auto", "cpu", "cuda"}), (std::vector<std::string>{"cpu", "cuda"}));
}

TEST_F(SweepDevices, AModeIsSupportedWhereOneOfTheDevicesHasIt) {
  const std::vector<c10::Device> both = {c10::kCPU, c10::Device(c10::kCUDA, 0)};
  EXPECT_EQ(unsupported(Mode::reduce_overhead, both),
            unsupported(Mode::reduce_overhead, c10::kCPU));
  add_device_runtime(c10::kCUDA, std::make_unique<OneGpu>(1));
  EXPECT_EQ(unsupported(Mode::reduce_overhead, both), std::nullopt);
  EXPECT_EQ(unsupported(Mode::default_, both), std::nullopt);
}

TEST_F(SweepDevices, Tf32ReachesTheWorker) {
  const SweepCase planned = sweep_cases(find_preset("ci"), {}).front();
  SweepSettings settings;
  EXPECT_FALSE(settings_from_json(request_json(planned, settings)).tf32);
  settings.tf32 = true;
  EXPECT_TRUE(settings_from_json(request_json(planned, settings)).tf32);
}

}  // namespace
}  // namespace wide::sweep_devices_test
