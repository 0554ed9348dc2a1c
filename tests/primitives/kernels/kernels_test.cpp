// The engine's own operators beside what ATen computes, on sizes that leave no remainder of a
// vector untried.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>

#include "primitives/kernels/lookup.h"
#include "primitives/kernels/pointwise/activations.h"
#include "primitives/kernels/pointwise/dropout.h"
#include "primitives/kernels/pointwise/prelu.h"
#include "primitives/kernels/pooling/adaptive_pool.h"
#include "primitives/kernels/stream.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::kernels_test {
namespace {

using at::Tensor;

TEST(Kernels, PreluEqualsAten) {
  const at::NoGradGuard guard;
  at::manual_seed(1);
  const std::vector<std::vector<int64_t>> sizes{
      {1, 1}, {3, 2, 5}, {2, 3, 4, 1, 1}, {3, 2, 7, 5, 3}, {2, 1, 33, 17}, {2, 64, 8, 64, 64}};
  for_each_target([&](const std::string& target) {
    for (const auto& size : sizes)
      for (const bool single : {true, false}) {
        const Tensor x = at::randn(size);
        const int64_t channels = single || size.size() < 3 ? 1 : size[2];
        const Tensor slopes = at::randn({size[0], channels});
        const Tensor y = wide::prelu(x, slopes);
        for (int64_t n = 0; n < size[0]; ++n) {
          const Tensor expected = at::prelu(x.select(0, n), slopes.select(0, n));
          EXPECT_TRUE(y.select(0, n).equal(expected))
              << target << " " << x.sizes() << " model " << n;
        }
      }
    const Tensor odd = at::tensor({NAN, -INFINITY, INFINITY, -0.0F}).view({1, 4});
    const Tensor y = wide::prelu(odd, at::full({1, 1}, 0.5F));
    EXPECT_TRUE(y.isnan().select(1, 0).item<bool>());
    EXPECT_TRUE(y.slice(1, 1).equal(at::tensor({-INFINITY, INFINITY, -0.0F}).view({1, 3})));
  });
}

TEST(Kernels, AdaptivePoolEqualsAten) {
  const at::NoGradGuard guard;
  at::manual_seed(2);
  for (const int64_t h : {1, 3, 7, 56})
    for (const int64_t w : {1, 5, 8, 17})
      for (const int64_t oh : {1, 2, 7, 9})
        for (const int64_t ow : {1, 3, 8}) {
          const Tensor x = at::randn({2, 3, 2, h, w});
          const Tensor expected =
              at::adaptive_avg_pool2d(x.flatten(0, 1).to(at::kDouble), {oh, ow});
          const Tensor y = adaptive_average_pool(x, {oh, ow}).flatten(0, 1);
          ASSERT_EQ(y.sizes(), expected.sizes());
          EXPECT_LT((y - expected).abs().max().item<double>(), 1e-6)
              << h << "x" << w << " to " << oh << "x" << ow;
        }
}

TEST(Kernels, LookupEqualsAtenAndRefusesStrangers) {
  const at::NoGradGuard guard;
  at::manual_seed(3);
  for (const int64_t width : {1, 3, 16, 17, 250}) {
    const Tensor tables = at::randn({3, 11, width});
    for (const auto type : {at::kLong, at::kInt}) {
      Tensor ids = at::randint(0, 11, {3, 4, 5}).to(type);
      const Tensor y = lookup(tables, ids);
      for (int64_t n = 0; n < 3; ++n)
        EXPECT_TRUE(y.select(0, n).equal(
            at::embedding(tables.select(0, n), ids.select(0, n).to(at::kInt))));
      for (const int64_t bad : {-1, 11}) {
        Tensor wrong = ids.clone();
        wrong.select(0, 1).select(0, 2).select(0, 3).fill_(bad);
        EXPECT_THROW(lookup(tables, wrong), c10::IndexError);
      }
    }
  }
  // Large enough to be written past the caches, from rows that are not aligned.
  const Tensor tables = at::randn({2, 50, 1027}).narrow(2, 1, 1025);
  const Tensor ids = at::randint(0, 50, {2, 1100});
  ASSERT_GT(2 * 1100 * 1025 * 4, kernels::kStreamBytes);
  const Tensor y = lookup(tables, ids);
  for (int64_t n = 0; n < 2; ++n)
    EXPECT_TRUE(y.select(0, n).equal(tables.select(0, n).index_select(0, ids.select(0, n))));
}

/// The bits of a seed are the same whatever instructions draw them.
TEST(Kernels, DropoutIsTheSameUnderEveryInstructionSet) {
  const at::NoGradGuard guard;
  for (const int64_t count : {1, 15, 16, 17, 4096, 9001}) {
    const Tensor x = at::rand({2, count}) + 0.5;
    std::optional<Tensor> first;
    for_each_target([&](const std::string& target) {
      at::manual_seed(4);
      const Tensor y = dropout(x, 0.3);
      const Tensor kept = y.ne(0);
      EXPECT_TRUE(at::allclose(y.masked_select(kept), x.masked_select(kept) / 0.7)) << target;
      if (!first) first = y;
      EXPECT_TRUE(y.equal(*first)) << target << " " << count;
    });
  }
}

TEST(Kernels, DropoutKeepsTheRightShareAndItsSeed) {
  const at::NoGradGuard guard;
  for (const double p : {0.1, 0.5, 0.9}) {
    at::manual_seed(4);
    const Tensor x = at::ones({3, 100003});
    const Tensor y = dropout(x, p);
    const Tensor kept = y.ne(0);
    EXPECT_TRUE(y.masked_select(kept).eq(static_cast<float>(1 / (1 - p))).all().item<bool>());
    const Tensor drawn = kept.to(at::kDouble) - (1 - p);
    const double sigma = std::sqrt(p * (1 - p));
    for (int64_t n = 0; n < 3; ++n) {
      const Tensor own = drawn.select(0, n);
      const auto count = static_cast<double>(own.numel());
      EXPECT_LT(std::abs(own.mean().item<double>()), 5 * sigma / std::sqrt(count));
      // Neither a neighbour, nor a lane, nor a block, nor another model knows of an element.
      for (const int64_t lag : {1, 2, 16, 17, 4096}) {
        const double shared =
            (own.slice(0, lag) * own.slice(0, 0, own.numel() - lag)).mean().item<double>();
        EXPECT_LT(std::abs(shared), 5 * sigma * sigma / std::sqrt(count)) << "lag " << lag;
      }
      const double other = (own * drawn.select(0, (n + 1) % 3)).mean().item<double>();
      EXPECT_LT(std::abs(other), 5 * sigma * sigma / std::sqrt(count));
    }
    at::manual_seed(4);
    EXPECT_TRUE(dropout(x, p).equal(y));
    EXPECT_FALSE(dropout(x, p).equal(y));
    const int threads = at::get_num_threads();
    at::manual_seed(4);
    at::set_num_threads(1);
    EXPECT_TRUE(dropout(x, p).equal(y));
    at::set_num_threads(threads);
  }
}

TEST(Kernels, ActivationsAreExactToRounding) {
  const at::NoGradGuard guard;
  const Tensor x = at::cat(
      {at::linspace(-12, 12, 100003, at::kFloat), at::tensor({-300.0F, 300.0F, 0.0F, -1e-30F})});
  const Tensor exact = x.to(at::kDouble);
  const auto error = [&](const std::string& text, const Tensor& expected) {
    const Tensor y = x.clone();
    activations::run(*activations::find(text), y.mutable_data_ptr<float>(), y.numel());
    return ((y - expected).abs() / exact.abs().clamp_min(1.0)).max().item<double>();
  };
  EXPECT_EQ(error("relu", at::relu(exact)), 0.0);
  EXPECT_LT(error("silu", at::silu(exact)), 3e-7);
  EXPECT_LT(error("gelu", at::gelu(exact)), 3e-7);
  EXPECT_LT(error("gelu_tanh", at::gelu(exact, "tanh")), 3e-7);
  EXPECT_LT(error("tanh", at::tanh(exact)), 3e-7);
  EXPECT_LT(error("sigmoid", at::sigmoid(exact)), 3e-7);
  EXPECT_LT(error("elu 1.5 1 1", at::elu(exact, 1.5)), 3e-7);
  EXPECT_LT(error("leaky_relu 0.2", at::leaky_relu(exact, 0.2)), 3e-7);
  EXPECT_LT(error("softplus 2 20", at::softplus(exact, 2)), 3e-7);
  EXPECT_LT(error("threshold 0.5 -3", at::threshold(exact, 0.5, -3)), 3e-7);
  EXPECT_LT(error("hardtanh -0.5 6", at::hardtanh(exact, -0.5, 6)), 3e-7);
  EXPECT_LT(error("hardswish", at::hardswish(exact)), 3e-7);
  EXPECT_LT(error("mish", at::mish(exact)), 3e-7);
  EXPECT_EQ(activations::find("none"), nullptr);
  EXPECT_THROW(activations::find("dropout 0.5"), c10::Error);
  const std::map<std::string, std::string> numbers{{"elu", " 1 1 1"},     {"leaky_relu", " 0.2"},
                                                   {"softplus", " 1 20"}, {"threshold", " 0 -1"},
                                                   {"clamp", " 0 1"},     {"hardtanh", " 0 1"}};
  for (const std::string& name : activations::names()) {
    float data[3] = {NAN, 1.0F, NAN};
    const auto more = numbers.find(name);
    activations::run(*activations::find(name + (more == numbers.end() ? "" : more->second)), data,
                     3);
    EXPECT_TRUE(std::isnan(data[0]) && !std::isnan(data[1]) && std::isnan(data[2])) << name;
  }
}

/// Of neighbouring arguments the greater one: what does not rise says so, and what says that it
/// rises does, but for what is rounded.
TEST(Kernels, ActivationsThatRise) {
  const Tensor x = std::get<0>(at::cat({at::randn({4000}) * 3, at::randn({500}) * 40,
                                        at::full({1}, -INFINITY), at::full({1}, INFINITY)})
                                   .sort());
  int64_t rising = 0;
  for (const std::string text : {"relu",
                                 "tanh",
                                 "sigmoid",
                                 "erf",
                                 "hardsigmoid",
                                 "exp",
                                 "expm1",
                                 "clamp -0.5 2",
                                 "hardtanh 2 1",
                                 "leaky_relu 0.2",
                                 "leaky_relu -0.2",
                                 "leaky_relu 0",
                                 "elu 1 1 1",
                                 "elu -1 1 1",
                                 "elu 1 -1 1",
                                 "elu 0.5 2 0.5",
                                 "elu 1 1 0",
                                 "softplus 1 20",
                                 "softplus 2 30",
                                 "softplus 1 1",
                                 "softplus -1 20",
                                 "silu",
                                 "gelu",
                                 "gelu_tanh",
                                 "mish",
                                 "hardswish",
                                 "neg",
                                 "abs",
                                 "square",
                                 "sin",
                                 "threshold 0 1",
                                 "threshold 0 -1"}) {
    const chains::Code& code = *activations::find(text);
    const Tensor y = x.clone();
    activations::run(code, y.mutable_data_ptr<float>(), y.numel());
    const Tensor before = y.slice(0, 0, -1), after = y.slice(0, 1);
    const bool falls = (after < before - 1e-6 * before.abs()).any().item<bool>();
    const bool loses = y.isnan().any().item<bool>();  // of infinity
    EXPECT_FALSE((falls || loses) && activations::rises(code)) << text;
    rising += activations::rises(code);
  }
  EXPECT_EQ(rising, 14);
}

TEST(Kernels, GradientsAreRefused) {
  const Tensor x = at::randn({2, 3, 4}).requires_grad_();
  EXPECT_ANY_THROW(wide::prelu(x, at::ones({2, 1})).sum().backward());
}

}  // namespace
}  // namespace wide::kernels_test
