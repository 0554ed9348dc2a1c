// N modules on a device as the Python package calls them: weights come with every call.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/device.h"
#include "engine/wide.h"
#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

constexpr int kModules = 3;

Tensor waves(at::IntArrayRef sizes, double first) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::arange(count, at::kDouble).mul(0.7).add(first).sin().view(sizes);
}

/// Writes to its buffer in every call.
struct Averaging {
  Tensor w1, w2, mean;
  NamedTensors named_parameters() const { return {{"w1", w1}, {"w2", w2}}; }
  NamedTensors named_buffers() const { return {{"mean", mean}}; }
  Tensor operator()(const Tensor& x) {
    const Tensor y = at::tanh(at::matmul(x, w1));
    mean.mul_(0.9).add_(y.mean(0), 0.1);
    return at::matmul(y, w2) + mean;
  }
};

struct Dropping {
  Tensor w;
  NamedTensors named_parameters() const { return {{"w", w}}; }
  NamedTensors named_buffers() const { return {}; }
  Tensor operator()(const Tensor& x) { return at::dropout(at::matmul(x, w), 0.5, true); }
};

class SimulatedModules : public ::testing::Test {
 protected:
  void SetUp() override {
    install();
    Streams::get().synchronize();
    Streams::get().reset(1);
  }
  static Tensor there(const Tensor& t) { return t.to(at::kFloat).to(kDevice); }
};

TEST_F(SimulatedModules, TakeWeightsInEveryCallAndGiveBuffersBack) {
  const at::NoGradGuard no_grad;
  for (const Mode mode : {Mode::default_, Mode::reduce_overhead}) {
    SCOPED_TRACE(to_string(mode));
    std::vector<Averaging> separate, on_device;
    for (int i = 0; i < kModules; ++i) {
      separate.push_back({waves({5, 4}, i), waves({4, 4}, i + 7), waves({4}, i + 9)});
      const Averaging& own = separate.back();
      on_device.push_back({there(own.w1), there(own.w2), there(own.mean)});
    }
    WideModel wide = compile(on_device, {there(waves({6, 5}, 0))},
                             Builder().mode(mode).tune(false).frozen(false));
    Tensors weights;
    for (const std::string& name : wide.weight_names()) weights.push_back(wide.state().at(name));
    for (int call = 0; call < 3; ++call) {
      const Tensor x = waves({kModules, 6, 5}, call);
      for (size_t k = 0; k < weights.size(); ++k)
        if (wide.weight_names()[k] == "w1") weights[k].add_(0.25);
      std::vector<std::pair<size_t, Tensor>> changed;
      const Tensor got = wide.run({there(x)}, weights, &changed).front();
      ASSERT_EQ(changed.size(), 1u);
      weights[changed.front().first].copy_(changed.front().second);
      ASSERT_EQ(got.device(), kDevice);
      for (int i = 0; i < kModules; ++i) {
        Averaging& own = separate[static_cast<size_t>(i)];
        own.w1.add_(0.25);
        EXPECT_TRUE(at::allclose(got[i].cpu().to(at::kDouble), own(x[i]), 1e-4, 1e-5)) << i;
      }
    }
    EXPECT_EQ(Streams::get().violations, std::vector<std::string>{});
  }
}

TEST_F(SimulatedModules, CompilingLeavesTheRandomStateOfTheirDevice) {
  const at::NoGradGuard no_grad;
  std::vector<Dropping> models;
  for (int i = 0; i < kModules; ++i) models.push_back({there(waves({5, 40}, i))});
  at::Generator generator = at::globalContext().defaultGenerator(kDevice);
  const Tensor before = generator.get_state();
  WideModel wide = compile(models, {there(waves({16, 5}, 0))}, Builder().validate());
  EXPECT_TRUE(at::equal(generator.get_state(), before));
  wide.run({there(waves({kModules, 16, 5}, 1))});
  EXPECT_FALSE(at::equal(generator.get_state(), before)) << "a call draws from it";
}

}  // namespace
}  // namespace wide::simulated
