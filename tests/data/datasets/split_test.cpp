#include "data/datasets/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/data/python.h"

namespace wide::split_test {
namespace {

TEST(Splits, HoldBackTheSameShareOfEachClass) {
  RowKinds kinds;
  for (int64_t i = 0; i < 1000; ++i) kinds.classes.push_back(i % 10 == 0 ? 2 : i % 3 == 0);
  const Split split = hold_back(all_rows(1000), 0.25, kinds, 3, "--validation");
  EXPECT_EQ(split.held.size(), 250u);
  std::map<int64_t, int64_t> all, held;
  for (const int64_t c : kinds.classes) ++all[c];
  for (const int64_t row : split.held) ++held[kinds.classes[size_t(row)]];
  for (const auto& [c, count] : all) EXPECT_NEAR(double(held[c]), double(count) / 4, 1.01) << c;
  Rows together = split.train;
  together.insert(together.end(), split.held.begin(), split.held.end());
  std::sort(together.begin(), together.end());
  EXPECT_EQ(together, all_rows(1000));
  EXPECT_EQ(split.held, hold_back(all_rows(1000), 0.25, kinds, 3, "").held);
  EXPECT_NE(split.held, hold_back(all_rows(1000), 0.25, kinds, 4, "").held);
}

TEST(Splits, GroupsAreNeverTorn) {
  RowKinds kinds;
  for (int64_t i = 0; i < 300; ++i) kinds.groups.push_back(i * i % 37);
  const Split split = hold_back(all_rows(300), 0.3, kinds, 0, "--validation");
  std::set<int64_t> held;
  for (const int64_t row : split.held) held.insert(kinds.groups[size_t(row)]);
  for (const int64_t row : split.train) EXPECT_FALSE(held.count(kinds.groups[size_t(row)]));
  const Rows folds = assign_folds(300, all_rows(300), 5, kinds, 0);
  std::map<int64_t, std::set<int64_t>> of_group;
  std::map<int64_t, int64_t> sizes;
  for (int64_t row = 0; row < 300; ++row) {
    of_group[kinds.groups[size_t(row)]].insert(folds[size_t(row)]);
    ++sizes[folds[size_t(row)]];
  }
  for (const auto& [group, in] : of_group) EXPECT_EQ(in.size(), 1u) << group;
  EXPECT_EQ(sizes.size(), 5u);
  EXPECT_EQ(error_of([&] { assign_folds(300, all_rows(300), 40, kinds, 0); }),
            "[--folds] folds: got 40 for 19 groups, expected at most as many; try --folds 19");
}

TEST(Splits, FoldsAreEvenInSizeAndClass) {
  RowKinds kinds;
  for (int64_t i = 0; i < 103; ++i) kinds.classes.push_back(i % 4);
  const Rows folds = assign_folds(103, all_rows(103), 5, kinds, 1);
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  std::map<int64_t, int64_t> sizes;
  for (size_t row = 0; row < folds.size(); ++row) {
    ++counts[{folds[row], kinds.classes[row]}];
    ++sizes[folds[row]];
  }
  for (const auto& [at, count] : counts) EXPECT_NEAR(double(count), 103.0 / 20, 1.2);
  for (const auto& [fold, size] : sizes) EXPECT_NEAR(double(size), 103.0 / 5, 1);
}

TEST(Splits, OrdersHangOnSeedAndEpochAlone) {
  const Rows order = shuffled(50, 7, 3);
  EXPECT_TRUE(std::is_permutation(order.begin(), order.end(), all_rows(50).begin()));
  EXPECT_EQ(order, shuffled(50, 7, 3));
  EXPECT_NE(order, shuffled(50, 7, 4));
  EXPECT_NE(order, shuffled(50, 8, 3));
  // Each row comes first about as often as any other.
  std::map<int64_t, int64_t> first;
  for (uint64_t seed = 0; seed < 5000; ++seed) ++first[shuffled(5, seed, 0)[0]];
  for (const auto& [row, count] : first) EXPECT_NEAR(double(count), 1000, 150) << row;
}

}  // namespace
}  // namespace wide::split_test
