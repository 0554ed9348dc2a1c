// The simulated device itself: its results are the CPU's, and what a GPU would not forgive is
// found.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "engine/device.h"
#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

[[maybe_unused]] const bool installed = (install(), true);

using Lines = std::vector<std::string>;

Tensor numbers(at::IntArrayRef sizes, double first = 1) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::arange(count, at::kFloat).mul(0.37).add(first).sin().view(sizes);
}

class SimulatedDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    Streams::get().synchronize();
    Streams::get().reset(1);
  }
  void TearDown() override {
    Streams::get().reset(1);
    Memory::get().set_limit(int64_t{4} << 30);
  }
  static Lines violations() { return Streams::get().violations; }
};

/// On the CPU and on the device, from the same tensors.
void expect_same(const std::string& what, const std::function<Tensor(const Tensors&)>& f,
                 const Tensors& arguments) {
  SCOPED_TRACE(what);
  Tensors there;
  for (const Tensor& t : arguments) there.push_back(t.to(kDevice));
  const Tensor expected = f(arguments), got = f(there);
  ASSERT_EQ(got.device(), kDevice);
  EXPECT_EQ(got.sizes(), expected.sizes());
  EXPECT_EQ(got.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(at::allclose(got.cpu(), expected, 1e-5, 1e-6));
}

TEST_F(SimulatedDevice, ComputesWhatTheCpuDoes) {
  const at::NoGradGuard no_grad;
  const Tensor a = numbers({3, 5, 7}), b = numbers({3, 7, 2}, 2), row = numbers({7}, 3);
  expect_same("mm", [](const Tensors& t) { return at::matmul(t[0], t[1]); }, {a, b});
  expect_same("add", [](const Tensors& t) { return t[0].add(t[1], 2); }, {a, row});
  expect_same("in place", [](const Tensors& t) { return t[0].clone().mul_(t[1]).add_(1); },
              {a, row});
  expect_same("views",
              [](const Tensors& t) {
                return t[0].transpose(0, 2).slice(1, 1, 4).select(0, 3).unsqueeze(1) + 0;
              },
              {a});
  expect_same("reduce",
              [](const Tensors& t) {
                return at::softmax(t[0], 1).sum(at::IntArrayRef{0, 2});
              },
              {a});
  expect_same("linear", [](const Tensors& t) { return at::linear(t[0], t[1], t[2]); },
              {a, numbers({5, 7}), numbers({5})});
  expect_same("layer norm", [](const Tensors& t) { return at::layer_norm(t[0], {7}, t[1], t[1]); },
              {a, row});
  expect_same("index", [](const Tensors& t) { return t[0].index({t[1]}); },
              {a, at::tensor({2, 0, 2, 1})});
  expect_same("mask", [](const Tensors& t) { return t[0].masked_select(t[0] > 0); }, {a});
  expect_same("where", [](const Tensors& t) { return at::where(t[0] > 0, t[0], -1); }, {a});
  expect_same("outs", [](const Tensors& t) { return t[0].ge(0).logical_and(t[0].lt(t[1])); },
              {a, row});
  expect_same("batch norm",
              [](const Tensors& t) {
                return at::batch_norm(t[0], t[1], t[1], t[2], t[3], false, 0.1, 1e-5, false);
              },
              {numbers({4, 7}), row, numbers({7}), numbers({7}).abs()});
  expect_same("cat", [](const Tensors& t) { return at::cat({t[0], t[0].flip(0)}, 1); }, {a});
  expect_same("convolution", [](const Tensors& t) { return at::conv2d(t[0], t[1], t[2], 2, 1); },
              {numbers({2, 3, 9, 9}), numbers({4, 3, 3, 3}), numbers({4})});
  expect_same("attention",
              [](const Tensors& t) { return at::scaled_dot_product_attention(t[0], t[0], t[0]); },
              {numbers({2, 2, 5, 4})});
  expect_same("inverse",
              [](const Tensors& t) {
                return at::linalg_solve(at::matmul(t[0], t[0].mT()) + at::eye(4, t[0].options()),
                                        t[0]);
              },
              {numbers({2, 4, 4})});
  expect_same("lists", [](const Tensors& t) { return at::_foreach_add({t[0], t[0]}, 2)[1]; }, {a});
  EXPECT_EQ(at::arange(5, at::TensorOptions().device(kDevice)).sum().item<int64_t>(), 10);
  EXPECT_TRUE(a.to(kDevice).equal(a.to(kDevice)));
  EXPECT_EQ(violations(), Lines{});
}

TEST_F(SimulatedDevice, DifferentiatesAsTheCpuDoes) {
  const auto gradient = [](const Tensors& t) {
    Tensor x = t[0].detach().requires_grad_(), w = t[1].detach().requires_grad_();
    at::gelu(at::conv2d(x, w)).sum().backward();
    return at::cat({x.grad().flatten(), w.grad().flatten()});
  };
  expect_same("convolution", gradient, {numbers({2, 3, 5, 5}), numbers({4, 3, 2, 2})});
  EXPECT_EQ(violations(), Lines{});
}

TEST_F(SimulatedDevice, DrawsBySeedAndOffset) {
  const auto options = at::TensorOptions().device(kDevice);
  at::manual_seed(7);
  const Tensor a = at::rand({50}, options), b = at::rand({50}, options);
  at::manual_seed(7);
  const Tensor again = at::rand({50}, options);
  EXPECT_TRUE(a.equal(again));
  EXPECT_FALSE(a.equal(b));
  at::Generator own = at::globalContext().defaultGenerator(kDevice);
  const Tensor state = own.get_state();
  const Tensor next = at::rand({50}, options);
  own.set_state(state);
  EXPECT_TRUE(next.equal(at::rand({50}, options)));
  const double zeros =
      at::dropout(at::ones({4000}, options), 0.25, true).eq(0).sum().item<double>();
  EXPECT_NEAR(zeros, 1000, 120);
}

TEST_F(SimulatedDevice, NothingRunsBeforeSomebodyWaits) {
  const Tensor x = at::zeros({4}, at::TensorOptions().device(kDevice));
  x.add_(1);
  const Tensor shadow = shadow_of(x);
  EXPECT_NE(shadow[0].item<float>(), 1);
  synchronize(kDevice);
  EXPECT_EQ(shadow[0].item<float>(), 1);
}

using SimulatedDeviceDeathTest = SimulatedDevice;

TEST_F(SimulatedDeviceDeathTest, AHostReadEndsTheProcess) {
  const Tensor x = at::ones({4}, at::TensorOptions().device(kDevice));
  synchronize(kDevice);
  EXPECT_DEATH(
      {
        volatile float seen = static_cast<const float*>(x.const_data_ptr())[1];
        (void)seen;
      },
      "\\[simulated\\] host access to device memory: .* byte 4 of a block of 512");
  EXPECT_DEATH(std::memset(x.data_ptr(), 0, 4), "host access to device memory");
}

/// Writes on one stream and reads on another, with an event between them or without.
float one_after_the_other(bool with_event, uint64_t seed) {
  Streams::get().synchronize();
  Streams::get().reset(seed);
  const Tensor x = at::zeros({4}, at::TensorOptions().device(kDevice));
  const Tensor y = at::zeros({4}, at::TensorOptions().device(kDevice));
  synchronize(kDevice);
  {
    const c10::StreamGuard guard(stream_of(1));
    x.fill_(5);
    if (with_event) {
      c10::Event event(kDevice.type());
      event.record(stream_of(1));
      event.block(stream_of(2));
    }
  }
  {
    const c10::StreamGuard guard(stream_of(2));
    y.copy_(x);
  }
  synchronize(kDevice);
  return shadow_of(y)[0].item<float>();
}

TEST_F(SimulatedDevice, AMissingEventIsFound) {
  std::set<float> with, without;
  for (uint64_t seed = 1; seed <= 20; ++seed) with.insert(one_after_the_other(true, seed));
  EXPECT_EQ(with, std::set<float>{5});
  EXPECT_EQ(violations(), Lines{});
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    without.insert(one_after_the_other(false, seed));
    ASSERT_EQ(violations().size(), 1u) << "found in every order";
    EXPECT_EQ(violations()[0],
              "a missing event: aten::copy_ source reads on stream 2 what "
              "aten::fill_ argument 0 writes on stream 1");
  }
  EXPECT_EQ(without, (std::set<float>{0, 5})) << "both orders happen";
}

TEST_F(SimulatedDevice, MixedDevicesAreRefused) {
  const Tensor x = at::ones({4}, at::TensorOptions().device(kDevice));
  EXPECT_THROW(x.add(at::ones({4})), c10::Error);
  EXPECT_EQ(violations(), (Lines{"devices mixed: aten::add argument 1 is on cpu"}));
  EXPECT_EQ(x.add(at::scalar_tensor(2)).sum().item<float>(), 12) << "a number is no tensor";
}

TEST_F(SimulatedDevice, RunsOutOfMemoryAndBreaksByRequest) {
  Memory::get().set_limit(Memory::get().allocated() + (1 << 20));
  const auto options = at::TensorOptions().device(kDevice);
  EXPECT_THROW(at::empty({1 << 20}, options), c10::OutOfMemoryError);
  Tensor x = at::ones({4}, options);
  EXPECT_EQ(x.sum().item<float>(), 4) << "there is room for it";
  EXPECT_NO_THROW(expect_working(kDevice));
  Streams::get().break_with("an assertion failed in a kernel");
  EXPECT_THROW(expect_working(kDevice), BrokenDevice);
  EXPECT_THROW(x.add(1), c10::Error);
  x.reset();  // memory is given back all the same
}

/// Freed memory is overwritten, so that a result which lies there is seen.
TEST_F(SimulatedDevice, SeveralResultsInArgumentsStayAlive) {
  const at::NoGradGuard no_grad;
  const auto options = at::TensorOptions().device(kDevice);
  const Tensor x = numbers({2, 3, 4, 4}).to(kDevice), ones = at::ones({3}, options),
               zeros = at::zeros({3}, options);
  ASSERT_EQ(mallopt(M_PERTURB, 0x5a), 1);
  for (int i = 0; i < 10; ++i) {
    Tensors many(50);  // beyond what malloc keeps as it is
    for (Tensor& t : many) t = at::empty({1}, at::kMeta);
    many.clear();
    Tensor out = at::empty_like(x), mean = at::empty({0}, options), scale = at::empty({0}, options);
    at::native_batch_norm_out(out, mean, scale, x, ones, zeros, zeros, ones, false, 0.1, 0);
    EXPECT_TRUE(out.equal(x));
    EXPECT_EQ(mean.sizes(), at::IntArrayRef{0});
  }
  mallopt(M_PERTURB, 0);
  EXPECT_EQ(violations(), Lines{});
}

TEST_F(SimulatedDevice, FreedMemoryIsTakenAgainByItsStreamAlone) {
  const auto options = at::TensorOptions().device(kDevice);
  Tensor x = at::ones({1000}, options);
  const void* const first = x.const_data_ptr();
  x.reset();
  {
    const c10::StreamGuard guard(stream_of(3));
    EXPECT_NE(at::ones({1000}, options).const_data_ptr(), first);
  }
  EXPECT_EQ(at::ones({1000}, options).const_data_ptr(), first);
  EXPECT_EQ(violations(), Lines{});
}

}  // namespace
}  // namespace wide::simulated
