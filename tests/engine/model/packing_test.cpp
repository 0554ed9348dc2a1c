#include "engine/model/packing.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/error.h"
#include "tests/engine/large_pages.h"

namespace wide::packing_test {
namespace {

TEST(Packing, ThereAndBackIsTheSame) {
  std::vector<Tensors> separate;
  const Tensor shared = at::randn({2});
  for (int i = 0; i < 5; ++i) separate.push_back({at::randn({3, 4}), at::randint(9, {2}), shared});
  const Tensors wide = pack(separate, {false, false, true});
  EXPECT_EQ(wide[0].sizes().vec(), (Sizes{5, 3, 4}));
  EXPECT_TRUE(wide[2].is_same(shared));
  const auto back = unpack({wide[0], wide[1]}, 5);
  for (size_t i = 0; i < 5; ++i)
    for (size_t k = 0; k < 2; ++k) EXPECT_TRUE(back[i][k].equal(separate[i][k]));
  EXPECT_EQ(pack({separate[0]})[0].sizes().vec(), (Sizes{1, 3, 4}));
}

TEST(Packing, GradientsFlowToTheSeparateTensors) {
  const Tensor a = at::ones({3}).requires_grad_(), b = at::ones({3}).requires_grad_();
  const Tensors earlier{at::zeros({2, 3})};
  const Tensor wide = pack({{a}, {b}}, {}, earlier)[0];
  (wide * at::tensor({2.0, 5.0}).view({2, 1})).sum().backward();
  EXPECT_TRUE(a.grad().equal(at::full({3}, 2.0F)));
  EXPECT_TRUE(b.grad().equal(at::full({3}, 5.0F)));
  EXPECT_TRUE(earlier[0].equal(at::zeros({2, 3})));
}

TEST(Packing, LargeTensorsAreInLargePages) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"))
    GTEST_SKIP() << "this kernel has no large pages";
  const auto packed = [](int64_t megabytes) {
    const Tensor half = at::ones({megabytes << 17});  // float32
    return pack({{half}, {half}})[0];
  };
  const Tensor small = packed(1), large = packed(6);
  EXPECT_FALSE(asked_for_large_pages(small));
  EXPECT_TRUE(asked_for_large_pages(large));
  EXPECT_EQ(large.sum().item<float>(), static_cast<float>(6 << 18));
}

TEST(Packing, MemoryOfAnEarlierCallIsWrittenAgain) {
  const auto models = [] {
    std::vector<Tensors> separate;
    for (int i = 0; i < 3; ++i) separate.push_back({at::randn({2, 5}), at::randint(9, {4})});
    return separate;
  };
  const Tensors first = pack(models());
  const auto others = models();
  const Tensors second = pack(others, {}, first);
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_TRUE(second[k].is_same(first[k]));
    for (size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(second[k][static_cast<int64_t>(i)].equal(others[i][k]));
  }
  // Of other sizes or another type: new memory, and the earlier stays.
  const Tensor kept = first[0].clone();
  const Tensors fewer = pack({others[0], others[1]}, {}, first);
  EXPECT_FALSE(fewer[0].is_same(first[0]));
  EXPECT_FALSE(
      pack({{at::randint(9, {2, 5})}, {at::randint(9, {2, 5})}, {at::ones({2, 5}, at::kLong)}}, {},
           first)[0]
          .is_same(first[0]));
  EXPECT_TRUE(first[0].equal(kept));
}

TEST(Packing, RefusesWhatDiffers) {
  const auto message = [](const std::vector<Tensors>& separate) {
    try {
      pack(separate);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message({}), "[pack] models: got none, expected at least one; try one for each");
  EXPECT_EQ(message({{at::ones({2})}, {at::ones({2}), at::ones({2})}}),
            "[pack] tensors of model 1: got 2, expected 1 as of model 0; try the same for all");
  EXPECT_EQ(message({{at::ones({2})}, {at::ones({3})}}),
            "[pack] tensor 0 of model 1: got f32[3], expected f32[2] as of model 0; try models of "
            "one architecture");
}

TEST(Packing, ChannelsThereAndBack) {
  for (const Sizes& sizes : {Sizes{2, 3}, Sizes{2, 3, 4}, Sizes{1, 1, 5, 2}, Sizes{2, 3, 1, 2, 2}})
    for (const int64_t n : {1, 2, 5}) {
      Tensors each;
      for (int64_t i = 0; i < n; ++i) each.push_back(at::randn(sizes));
      const Tensor packed = to_channels(each);
      EXPECT_EQ(packed.size(0), sizes[0]);
      EXPECT_EQ(packed.size(1), n * sizes[1]);
      const Tensors back = from_channels(packed, n);
      ASSERT_EQ(back.size(), each.size());
      for (size_t i = 0; i < each.size(); ++i) EXPECT_TRUE(back[i].equal(each[i]));
    }
  EXPECT_THROW(to_channels({}), Error);
  EXPECT_THROW(to_channels({at::ones({2})}), Error);
  EXPECT_THROW(to_channels({at::ones({2, 3}), at::ones({2, 4})}), Error);
  EXPECT_THROW(from_channels(at::ones({2, 7}), 2), Error);
  EXPECT_THROW(from_channels(at::ones({2, 7}), 0), Error);
}

}  // namespace
}  // namespace wide::packing_test
