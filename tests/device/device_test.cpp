// What the engine does with a device's runtime besides graphs: events, memory, errors that stay.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "app/sweep/case/run.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/lower/tune/tuning.h"
#include "engine/measure/peaks.h"
#include "engine/widen/target.h"
#include "tests/device/fake_runtime.h"

namespace wide::device_test {
namespace {

CompileOptions options_of(Mode mode, bool tune) {
  CompileOptions options;
  options.mode = mode;
  options.threads = 1;
  options.ranges = 1;
  options.tune = tune;
  return options;
}

class Linear : public ::testing::Test {
 protected:
  const Target& target = find_target("linear");
  Network network = target.network(target.sweeps.at("ci").shapes.front());
  Ensemble ensemble = generate(network, 3, at::kFloat, c10::kCPU, 3);

  Tensors inputs() const {
    Tensors out;
    for (const size_t i : network.indices(true)) out.push_back(ensemble.tensors[i]);
    return out;
  }
};

using DeviceEvents = Linear;
using DeviceErrors = Linear;

TEST_F(DeviceEvents, TimeStepsStrategiesAndPeaks) {
  FakeRuntime fake;
  const auto model = compile(network, ensemble, options_of(Mode::default_, false));
  EXPECT_EQ(fake.count("start"), 0);
  const auto costs = model->explain(inputs());
  ASSERT_FALSE(costs.empty());
  EXPECT_EQ(fake.count("ns"), 11 * static_cast<int64_t>(costs.size()));
  // All steps of a call are submitted before the first is waited for.
  const std::vector<std::string> calls = fake.calls();
  const auto first = std::find(calls.begin(), calls.end(), "ns");
  EXPECT_EQ(std::count(calls.begin(), first, "stop"), static_cast<int64_t>(costs.size()));

  const int64_t before = fake.count("ns");
  const Target& conv = find_target("conv2d");
  const Network other = conv.network(conv.sweeps.at("ci").shapes.front());
  compile(other, generate(other, 3, at::kFloat, c10::kCPU, 3), options_of(Mode::default_, true));
  EXPECT_GT(fake.count("ns"), before + 6) << "strategies are measured on the device";
  EXPECT_EQ(fake.violations(), std::vector<std::string>{});
}

TEST_F(DeviceErrors, OneThatStaysIsToldFromOthers) {
  EXPECT_NO_THROW(expect_working(c10::kCPU));
  FakeRuntime fake;
  EXPECT_NO_THROW(expect_working(c10::kCPU));
  fake.break_with("CUDA error: device-side assert triggered\nmore lines");
  try {
    expect_working(c10::kCPU);
    FAIL() << "not found to be broken";
  } catch (const BrokenDevice& e) {
    EXPECT_EQ(e.exit_code(), 5);
    EXPECT_EQ(std::string(e.what()),
              "[device] cpu: got a persistent error (CUDA error: device-side assert "
              "triggered), expected a working device; try again in a new process");
  }
}

TEST_F(DeviceErrors, InputsOfAnotherDeviceAreRefused) {
  const auto model = compile(network, ensemble, options_of(Mode::default_, false));
  Tensors elsewhere = inputs();
  elsewhere[0] = elsewhere[0].to(c10::kMeta);
  try {
    model->run(elsewhere);
    FAIL() << "taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("got a tensor on meta, expected one on cpu"),
              std::string::npos)
        << e.what();
  }
}

TEST_F(DeviceErrors, ACaseThatDoesNotFitTheDeviceIsNotTried) {
  SweepCase planned;
  planned.target = &target;
  planned.shape = target.sweeps.at("ci").shapes.front();
  planned.n = 3;
  planned.strategies = {"vmap"};
  SweepSettings settings;
  settings.budget_s = 0.01;
  settings.threads = 1;
  settings.min_samples = 1;
  Stages stages;
  FakeRuntime fake;
  fake.set_free_memory(100);
  const Case none = run_case(planned, settings, stages);
  EXPECT_EQ(none.trials[0].status, Status::oom) << none.trials[0].reason;
  EXPECT_NE(none.trials[0].reason.find("100 B available"), std::string::npos)
      << none.trials[0].reason;
  fake.set_free_memory(int64_t{1} << 40);
  const Case fits = run_case(planned, settings, stages);
  EXPECT_EQ(fits.trials[0].status, Status::ok) << fits.trials[0].reason;
  EXPECT_EQ(fake.violations(), std::vector<std::string>{});
}

}  // namespace
}  // namespace wide::device_test
