#include "primitives/kernels/attention/attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "engine/check/check.h"
#include "engine/error.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::attention_test {
namespace {

Tensor in_double(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal,
                 double scale) {
  Tensor scores = at::matmul(q.to(at::kDouble), k.to(at::kDouble).transpose(-1, -2)) * scale;
  if (causal) scores = scores.masked_fill(at::ones_like(scores).triu(1).to(at::kBool), -INFINITY);
  if (mask.defined())
    scores = mask.scalar_type() == at::kBool ? scores.masked_fill(mask.logical_not(), -INFINITY)
                                             : scores + mask;
  return at::matmul(at::softmax(scores, -1), v.to(at::kDouble));
}

/// q, k and v of one tensor, as a layer of all three leaves them.
Tensors sliced(int64_t n, int64_t batch, int64_t heads, int64_t time, int64_t depth) {
  return at::randn({n, batch, time, 3, heads, depth}).permute({3, 0, 1, 4, 2, 5}).unbind(0);
}

TEST(AttentionKernel, EqualsDoubleAtOddSizesUnderEveryInstructionSet) {
  const at::NoGradGuard guard;
  for_each_target([](const std::string& target) {
    for (const Sizes& s :
         {Sizes{3, 2, 5, 7, 3}, {1, 1, 1, 1, 1}, {2, 1, 3, 131, 17}, {2, 3, 1, 16, 32}})
      for (const bool causal : {false, true})
        for (const double scale : {0.4, -0.7, 0.0}) {
          const Tensors t = sliced(s[0], s[1], s[2], s[3], s[4]);
          EXPECT_LT(max_relative_error({attention(t[0], t[1], t[2], {}, causal, scale)},
                                       {in_double(t[0], t[1], t[2], {}, causal, scale)}),
                    1e-5)
              << target << " " << fmt::format("{}", fmt::join(s, " ")) << " " << causal << " "
              << scale;
        }
    // More or fewer keys than queries, values of another width, one head of keys for all.
    for (const int64_t keys : {5, 40}) {
      const Tensor q = at::randn({2, 3, 4, 19, 6}), k = at::randn({2, 3, 1, keys, 6});
      const Tensor v = at::randn({2, 3, 4, keys, 11});
      for (const bool causal : {false, true})
        EXPECT_LT(
            max_relative_error({attention(q, k.expand({2, 3, 4, keys, 6}), v, {}, causal, 1.0)},
                               {in_double(q, k, v, {}, causal, 1.0)}),
            1e-5)
            << target << " " << keys << " " << causal;
    }
  });
}

TEST(AttentionKernel, LargeScoresStayFiniteAndNothingOfOneModelReachesAnother) {
  const at::NoGradGuard guard;
  const int threads = at::get_num_threads();
  for_each_target([&](const std::string& target) {
    Tensors t = sliced(3, 2, 2, 21, 8);
    // Whole numbers, so that the scores are exact however large they are.
    const Tensor q = t[0].round() * 4096, k = t[1].round();
    EXPECT_LT(max_relative_error({attention(q, k, t[2], {}, false, 1.0)},
                                 {in_double(q, k, t[2], {}, false, 1.0)}),
              1e-5)
        << target;
    at::set_num_threads(1);
    const Tensor clean = attention(t[0], t[1], t[2], {}, true, 0.3);
    for (size_t sick = 0; sick < 3; ++sick) {
      Tensors lost = t;
      lost[sick] = t[sick].clone();
      lost[sick][1].fill_(NAN);
      at::set_num_threads(2);
      const Tensor y = attention(lost[0], lost[1], lost[2], {}, true, 0.3);
      at::set_num_threads(threads);
      EXPECT_TRUE(y[1].isnan().all().item<bool>()) << target << " " << sick;
      EXPECT_TRUE(y[0].equal(clean[0]) && y[2].equal(clean[2])) << target << " " << sick;
    }
  });
}

TEST(AttentionKernel, MasksOfEveryKindAreTheScores) {
  const at::NoGradGuard guard;
  for_each_target([](const std::string& target) {
    const int64_t from = 7, to = 21;
    const Tensor q = at::randn({3, 2, 5, from, 4}), v = at::randn({3, 2, 5, to, 3});
    const Tensor k = at::randn({3, 2, 5, 4, to}).transpose(3, 4);  // features far apart
    for (const Sizes& s : {Sizes{1, 1, 1, from, to},
                           {3, 1, 1, from, to},
                           {3, 2, 5, from, to},
                           {1, 2, 1, 1, to},
                           {3, 1, 5, from, 1},
                           {1, 1, 1, 1, 1}})
      for (const double scale : {0.6, -0.7, 0.0}) {
        const Tensor added = at::randn(s), counts = at::rand(s).gt(0.3);
        counts.narrow(4, 0, 1).fill_(true);  // something is left of every row
        for (const Tensor& mask : {added, counts})
          for (const bool causal : {false, true})
            EXPECT_LT(max_relative_error({attention(q, k, v, mask, causal, scale)},
                                         {in_double(q, k, v, mask, causal, scale)}),
                      1e-5)
                << target << " " << mask.toString() << " " << mask.sizes() << " " << scale;
      }
    // Nothing counts in one row: NaN, as of a softmax, or 0, as of PyTorch's attention; there
    // alone.
    Tensor counts = at::ones({from, to}, at::kBool), added = at::zeros({from, to});
    counts[3].fill_(false);
    added[3].fill_(-INFINITY);
    for (const Tensor& mask : {counts, added}) {
      const Tensor y = attention(q, k, v, mask, false, 1.0).isnan();
      EXPECT_TRUE(y.select(3, 3).all().item<bool>()) << target;
      EXPECT_EQ(y.sum().item<int64_t>(), 3 * 2 * 5 * 3) << target;
      const Tensor zero = attention(q, k, v, mask, false, 1.0, /*empty_is_zero=*/true);
      EXPECT_TRUE(zero.select(3, 3).eq(0).all().item<bool>()) << target;
      EXPECT_EQ(zero.eq(0).sum().item<int64_t>(), 3 * 2 * 5 * 3) << target;
    }
    Tensor lost = q.clone();
    lost.select(3, 3).fill_(NAN);
    EXPECT_TRUE(
        attention(lost, k, v, added, false, 1.0, true).select(3, 3).isnan().all().item<bool>())
        << target;
  });
}

TEST(AttentionKernel, RefusesGradientsAndWhatDoesNotFit) {
  const Tensors t = sliced(1, 1, 1, 3, 4);
  EXPECT_ANY_THROW(
      attention(t[0].clone().requires_grad_(), t[1], t[2], {}, false, 1).sum().backward());
  const at::NoGradGuard guard;
  EXPECT_ANY_THROW(attention(t[0], t[1].narrow(4, 0, 2), t[2], {}, false, 1));
  EXPECT_ANY_THROW(attention(t[0], t[1], t[2].narrow(3, 0, 2), {}, false, 1));
}

}  // namespace
}  // namespace wide::attention_test
