// softmax and its logarithm beside ATen's in float64, under every instruction set.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "engine/passes/pass.h"
#include "engine/record/record.h"
#include "tests/primitives/kernels/called_operators.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::softmax_test {
namespace {

using at::Tensor;

Tensor exact(const Tensor& x, bool log) {
  const Tensor wide = x.to(at::kDouble);
  return log ? at::log_softmax(wide, -1) : at::softmax(wide, -1);
}

/// How far y is off, over what it may be: what the distance from the row's greatest loses when it
/// is rounded is not the exponential's.
double error(const Tensor& x, const Tensor& y, const Tensor& expected, bool log) {
  const Tensor below = std::get<0>(x.max(-1, true)) - x;
  const double sum = 7e-7 + 1e-9 * static_cast<double>(x.size(-1));
  const Tensor allowed =
      log ? expected.abs().clamp_min(1) * sum : expected * (below * 6e-8 + sum) + 2e-38;
  return ((y.to(at::kDouble) - expected) / allowed).abs().max().item<double>();
}

TEST(Softmax, IsRightForEveryWidth) {
  const at::NoGradGuard guard;
  at::manual_seed(1);
  for (const int64_t width : {1, 2, 5, 15, 16, 17, 31, 64, 100, 1031})
    for (const double spread : {1.0, 30.0}) {
      const Tensor x = at::randn({3, 7, width}) * spread;
      for (const bool log : {false, true}) {
        const Tensor expected = exact(x, log);
        for_each_target([&](const std::string& target) {
          EXPECT_LT(error(x, softmax(x, log), expected, log), 1)
              << width << " log " << log << " under " << target;
        });
      }
    }
}

TEST(Softmax, KeepsNanAndInfinitiesAsAtenDoes) {
  const at::NoGradGuard guard;
  at::manual_seed(2);
  for (const int64_t width : {3, 16, 37}) {
    Tensor x = at::randn({6, width});
    x.select(0, 1).fill_(-INFINITY);
    x.select(0, 2).select(0, 1).fill_(NAN);
    x.select(0, 3).select(0, width - 1).fill_(NAN);
    x.select(0, 4).select(0, 2).fill_(-INFINITY);
    x.select(0, 5).select(0, 0).fill_(INFINITY);
    for (const bool log : {false, true}) {
      const Tensor expected = exact(x, log).to(at::kFloat);
      for_each_target([&](const std::string& target) {
        EXPECT_TRUE(at::allclose(softmax(x, log), expected, 1e-6, 1e-6, /*equal_nan=*/true))
            << width << " log " << log << " under " << target;
      });
    }
  }
}

TEST(Softmax, SameBitsForAnyNumberOfThreadsInPlaceAndForNothing) {
  const at::NoGradGuard guard;
  at::manual_seed(3);
  const Tensor x = at::randn({301, 77});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor one = softmax(x, false);
  at::set_num_threads(2);
  EXPECT_TRUE(softmax(x, false).equal(one));
  at::set_num_threads(threads);
  Tensor place = x.clone();
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("wide::softmax", "out");
  for (const bool log : {false, true}) {
    place.copy_(x);
    std::vector<c10::IValue> stack{place, log, place};
    op.callBoxed(&stack);
    EXPECT_TRUE(place.equal(softmax(x, log)));
  }
  EXPECT_EQ(softmax(at::randn({0, 5}), false).numel(), 0);
  EXPECT_EQ(softmax(at::randn({5, 0}), true).numel(), 0);
  EXPECT_THROW(softmax(x.t(), false), c10::Error);
}

TEST(SoftmaxBackward, IsRightForEveryWidth) {
  const at::NoGradGuard guard;
  at::manual_seed(4);
  const int threads = at::get_num_threads();
  for (const int64_t width : {1, 2, 5, 15, 16, 17, 31, 64, 100, 1031})
    for (const bool log : {false, true}) {
      const Tensor g = at::randn({3, 7, width});
      const Tensor y = exact(at::randn({3, 7, width}) * 5, log).to(at::kFloat);
      const auto aten = log ? at::_log_softmax_backward_data : at::_softmax_backward_data;
      const Tensor expected = aten(g.to(at::kDouble), y.to(at::kDouble), -1, at::kDouble);
      for_each_target([&](const std::string& target) {
        at::set_num_threads(1);
        const Tensor got = softmax_backward(g, y, log);
        at::set_num_threads(2);
        EXPECT_TRUE(softmax_backward(g, y, log).equal(got));
        at::set_num_threads(threads);
        const double most = expected.abs().max().item<double>();
        EXPECT_LT((got.to(at::kDouble) - expected).abs().max().item<double>(), 2e-6 * most + 1e-7)
            << width << " log " << log << " under " << target;
        Tensor broken = g.clone();
        broken[1][2][0] = NAN;
        const Tensor lost = softmax_backward(broken, y, log);
        EXPECT_TRUE(lost[1][2].isnan().all().item<bool>());
        EXPECT_EQ(lost.isnan().sum().item<int64_t>(), width);
        EXPECT_TRUE(lost[2].equal(got[2]));
      });
    }
  EXPECT_EQ(softmax_backward(at::randn({0, 5}), at::randn({0, 5}), false).numel(), 0);
  EXPECT_THROW(softmax_backward(at::randn({3, 5}), at::randn({5, 3}), false), c10::Error);
}

TEST(SoftmaxBackward, IsWhatAProgramCalls) {
  const at::NoGradGuard guard;
  at::manual_seed(5);
  const Tensor g = at::randn({2, 3, 7}), y = at::softmax(at::randn({2, 3, 7}), -1);
  Program program = record(
      {{"g", Role::input, g, true}, {"y", Role::input, y, true}},
      [](const std::vector<Tensor>& t) {
        return std::vector<Tensor>{at::_softmax_backward_data(t[0], t[1], -1, at::kFloat),
                                   at::_log_softmax_backward_data(t[0], t[1], 2, at::kFloat),
                                   at::_softmax_backward_data(t[0], t[1], 1, at::kFloat)};
      },
      2);
  const auto before = interpret(program, {g, y});
  run_passes(program, {{}, /*verify=*/true, false});
  std::vector<std::string> names;
  for (const Node& node : program.nodes) names.push_back(node.name());
  EXPECT_EQ(names, (std::vector<std::string>{"wide::softmax_backward", "wide::softmax_backward",
                                             "aten::_softmax_backward_data"}));
  const auto after = interpret(program, {g, y});
  // A gradient near 0 is what is left of terms near 1, with the rounding of these.
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::allclose(before[i], after[i], 1e-5, 1e-6));
}

}  // namespace
}  // namespace wide::softmax_test
