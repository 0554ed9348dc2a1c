// Attention by blocks equals attention written out in float64, forward and backward, whatever the
// sizes, strides and instruction set; models that are NaN stay alone.
#include "primitives/kernels/attention/blockwise_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/program.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::testing::blockwise_attention_test {
namespace {

struct Shape {
  int64_t n, batch, heads, from, to, depth, width;
};

// Across blocks of 64 queries, 384 keys, 128 keys backward, and panels of every width.
const std::vector<Shape> kShapes{{1, 2, 1, 5, 7, 4, 3},      {2, 2, 3, 64, 64, 16, 16},
                                 {1, 1, 2, 400, 400, 8, 5},  {1, 1, 1, 131, 401, 20, 7},
                                 {1, 2, 1, 401, 131, 3, 50}, {3, 1, 1, 65, 129, 1, 1}};

Tensor written_out(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  Tensor scores = at::matmul(q, k.transpose(-2, -1)) * 0.3;
  if (causal)
    scores = scores.masked_fill(
        at::ones({q.size(-2), k.size(-2)}, q.options().dtype(at::kBool)).triu(1), -INFINITY);
  return at::matmul(at::softmax(scores, -1), v);
}

double error(const Tensor& got, const Tensor& expected) {
  return ((got.to(at::kDouble) - expected).abs().max() / expected.abs().max()).item<double>();
}

void expect_right(const Tensors& qkv, bool causal) {
  Tensors own, exact;
  for (const Tensor& t : qkv) {
    own.push_back(t.detach().requires_grad_());
    exact.push_back(t.detach().to(at::kDouble).requires_grad_());
  }
  const Tensor y = blockwise_attention(own[0], own[1], own[2], causal, 0.3);
  const Tensor expected = written_out(exact[0], exact[1], exact[2], causal);
  EXPECT_LT(error(y.detach(), expected.detach()), 5e-6);
  const Tensor gradient = at::randn(y.sizes());
  const Tensors got = torch::autograd::grad({y}, own, {gradient});
  const Tensors wanted = torch::autograd::grad({expected}, exact, {gradient.to(at::kDouble)});
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(error(got[i], wanted[i]), 2e-5) << i;
}

TEST(BlockwiseAttention, ForwardAndBackwardOfOddSizes) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    at::manual_seed(1);
    for (const Shape& s : kShapes)
      for (const bool causal : {false, true}) {
        SCOPED_TRACE(::testing::Message() << s.from << " to " << s.to << " causal " << causal);
        expect_right({at::randn({s.n, s.batch, s.heads, s.from, s.depth}),
                      at::randn({s.n, s.batch, s.heads, s.to, s.depth}),
                      at::randn({s.n, s.batch, s.heads, s.to, s.width})},
                     causal);
      }
  });
}

TEST(BlockwiseAttention, OfAnyStrides) {
  at::manual_seed(2);
  const Tensor x = at::randn({2, 3, 70, 3, 2, 8});  // as one projection leaves them
  const Tensor apart = x.permute({3, 0, 1, 4, 2, 5});
  expect_right({apart[0], apart[1], apart[2]}, true);
  const Tensor turned = at::randn({2, 3, 2, 8, 70}).transpose(3, 4);
  expect_right({apart[0], turned, turned}, false);
  const Tensor spread = at::randn({2, 3, 2, 140, 16}).slice(3, 0, 140, 2).slice(4, 0, 16, 2);
  expect_right({spread, apart[1], spread}, true);
  const Tensor thin = at::randn({2, 3, 2, 1, 70}).transpose(3, 4);
  expect_right({thin, thin, apart[2]}, false);
}

TEST(BlockwiseAttention, ScoresThatAreLarge) {
  at::manual_seed(3);
  const Tensor q = at::randn({1, 1, 1, 100, 16}) * 10, v = at::randn({1, 1, 1, 500, 16});
  expect_right({q, at::randn({1, 1, 1, 500, 16}), v}, false);
}

/// Scores near 1e8 are rounded to multiples of 8, in the backward pass in another order. No share
/// of a query exceeds 1, so no value's gradient exceeds the sum of the queries'.
TEST(BlockwiseAttention, GradientsOfHugeScoresAreBounded) {
  at::manual_seed(5);
  for (const bool causal : {false, true}) {
    const Tensor q = at::randn({1, 1, 2, 64, 8}) * 1e4, k = at::randn({1, 1, 2, 64, 8}) * 1e4;
    const Tensor v = at::randn({1, 1, 2, 64, 8}).requires_grad_();
    const Tensor y = blockwise_attention(q, k, v, causal, 0.3);
    const Tensor of_v = torch::autograd::grad({y}, {v}, {at::ones_like(y)})[0];
    EXPECT_LE(of_v.abs().max().item<double>(), 64) << causal;
  }
}

TEST(BlockwiseAttention, NothingCrossesFromModelToModel) {
  at::manual_seed(4);
  Tensor x = at::randn({3, 2, 1, 70, 8});
  const Tensor before = blockwise_attention(x, x, x, false, 1.0).clone();
  x[1].fill_(NAN);
  const Tensor after = blockwise_attention(x, x, x, false, 1.0);
  EXPECT_TRUE(after[0].equal(before[0]));
  EXPECT_TRUE(after[2].equal(before[2]));
  EXPECT_TRUE(after[1].isnan().all().item<bool>());
  x.requires_grad_();
  const Tensor y = blockwise_attention(x, x, x, false, 1.0);
  const Tensor of_x = torch::autograd::grad({y}, {x}, {at::ones_like(y)})[0];
  EXPECT_TRUE(of_x[1].isnan().all().item<bool>());
  EXPECT_FALSE(of_x[0].isnan().any().item<bool>());
  EXPECT_FALSE(of_x[2].isnan().any().item<bool>());
}

}  // namespace
}  // namespace wide::testing::blockwise_attention_test
