// softmax and its logarithm beside ATen's in float64, under every instruction set.
#include "primitives/kernels/softmax.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "tests/primitives/kernels/each_target.h"

namespace wide {
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

}  // namespace
}  // namespace wide
