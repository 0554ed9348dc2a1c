// Networks that may not fit are recorded without memory, as they would be on their device.
#include <gtest/gtest.h>

#include "app/sweep/case/estimate.h"
#include "engine/record/dry/dry.h"
#include "engine/widen/derivative.h"
#include "engine/widen/target.h"
#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

void expect_as_recorded(const Network& network, bool grad) {
  const Program whole = record_single(network, generate(network, 1, at::kFloat, kDevice, 3), grad);
  Memory::get().reset_peak();
  const int64_t before = Memory::get().peak();
  const Program dry = record_dry(network, at::kFloat, grad, kDevice);
  EXPECT_LT(Memory::get().peak() - before, 1 << 16) << "numbers of the network's own alone";
  EXPECT_EQ(dry.text(), whole.text());
  ASSERT_EQ(dry.values.size(), whole.values.size());
  for (size_t i = 0; i < dry.values.size(); ++i) {
    EXPECT_EQ(dry.values[i].device, whole.values[i].device) << dry.values[i].name;
    EXPECT_EQ(dry.values[i].strides, whole.values[i].strides) << dry.values[i].name;
  }
}

TEST(SimulatedDryRecording, IsWhatTheDeviceWouldGive) {
  install();
  Streams::get().reset(1);
  const at::NoGradGuard no_grad;
  int seen = 0;
  for (const Target* target : targets()) {
    if (!target->may_not_fit) continue;
    SCOPED_TRACE(target->name);
    ++seen;
    const Network network = target->network(target->sweeps.at("ci").shapes[0]);
    expect_as_recorded(network, false);
    const Program plain =
        record_single(network, generate(network, 1, at::kFloat, kDevice, 3), /*grad=*/true);
    expect_as_recorded(
        phase_network(network, plain, "backward", default_optimizer(target->optimizer).name), true);
  }
  EXPECT_GE(seen, 2);
  EXPECT_EQ(Streams::get().violations, std::vector<std::string>{});
}

}  // namespace
}  // namespace wide::simulated
