#include "app/train/inputs/augment.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

namespace wide::augment_test {
namespace {

// No two numbers of an image are alike, and none is 0.
Tensor images() {
  return at::arange(1, 41 * 2 * 5 * 7 + 1, at::kDouble).view({41, 2, 5, 7}).contiguous();
}

Tensor augmented(const Augmentation& how, uint64_t seed, int64_t step) {
  const Tensor made = images();
  augment(how, seed, step, made);
  return made;
}

TEST(Augment, EachImageIsOneOfTheWaysItCanBe) {
  const Tensor before = images();
  int64_t flipped = 0;
  const Tensor flips = augmented({true, 0, 0}, 3, 5);
  for (int64_t i = 0; i < 41; ++i) {
    const bool is_flipped = flips[i].equal(before[i].flip({2}));
    EXPECT_TRUE(is_flipped || flips[i].equal(before[i])) << i;
    flipped += is_flipped;
  }
  EXPECT_GT(flipped, 10);
  EXPECT_LT(flipped, 31);

  const Tensor crops = augmented({false, 2, 0}, 3, 5);
  const Tensor padded = at::constant_pad_nd(before, {2, 2, 2, 2});
  std::set<std::pair<int64_t, int64_t>> places;
  for (int64_t i = 0; i < 41; ++i)
    for (int64_t y = 0; y < 5; ++y)
      for (int64_t x = 0; x < 5; ++x)
        if (crops[i].equal(padded[i].narrow(1, y, 5).narrow(2, x, 7))) places.insert({y, x});
  EXPECT_GT(places.size(), 12u);

  const Tensor holes = augmented({false, 0, 3}, 3, 5);
  for (int64_t i = 0; i < 41; ++i) {
    const Tensor zero = holes[i].eq(0);
    EXPECT_TRUE(zero[0].equal(zero[1]));
    EXPECT_TRUE(holes[i].equal(before[i].masked_fill(zero, 0)));
    const Tensor at = zero[0].nonzero();
    const Tensor sides = std::get<0>(at.max(0)) - std::get<0>(at.min(0)) + 1;
    EXPECT_LE(sides.max().item<int64_t>(), 3);
    EXPECT_EQ(at.size(0), sides.prod().item<int64_t>());
  }
}

TEST(Augment, HangsOnSeedStepAndPlaceAlone) {
  const Augmentation how{true, 1, 2};
  EXPECT_TRUE(augmented(how, 3, 5).equal(augmented(how, 3, 5)));
  EXPECT_FALSE(augmented(how, 3, 5).equal(augmented(how, 4, 5)));
  EXPECT_FALSE(augmented(how, 3, 5).equal(augmented(how, 3, 6)));
  const Tensor single = images().to(at::kFloat);
  augment(how, 3, 5, single);
  EXPECT_TRUE(single.to(at::kDouble).equal(augmented(how, 3, 5)));
}

}  // namespace
}  // namespace wide::augment_test
