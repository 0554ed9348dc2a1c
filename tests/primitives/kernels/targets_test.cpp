// Kernels under every instruction set that this CPU has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "primitives/kernels/stream.h"
#include "tests/primitives/kernels/each_target.h"

// Which of them runs when a kernel is called.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/primitives/kernels/targets_test.cpp"
#include "primitives/kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace wide::HWY_NAMESPACE {
int64_t running() { return HWY_TARGET; }
}  // namespace wide::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide {
HWY_EXPORT(running);

namespace {

std::string running_name() { return hwy::TargetName(HWY_DYNAMIC_DISPATCH(running)()); }

TEST(Targets, EachIsForcedAndTheBestIsBackAfterwards) {
  const std::string best = running_name();
  std::vector<std::string> seen;
  for_each_target([&](const std::string& name) {
    EXPECT_EQ(running_name(), name);
    seen.push_back(name);
  });
  EXPECT_EQ(running_name(), best);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.front(), best);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "SCALAR"), HWY_ARCH_X86);
}

TEST(Targets, StreamCopyCopiesWhatItIsAskedTo) {
  for_each_target([](const std::string& name) {
    for (const int64_t count : {0, 1, 15, 16, 17, 100})
      for (const size_t shift : {0, 1, 15}) {
        std::vector<float> from(200), to(200, -1.0F);
        for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
        kernels::stream_copy(to.data() + shift, from.data() + 3, count);
        kernels::stream_fence();
        for (size_t i = 0; i < to.size(); ++i) {
          const bool inside = i >= shift && i < shift + static_cast<size_t>(count);
          ASSERT_EQ(to[i], inside ? static_cast<float>(i - shift + 3) : -1.0F)
              << name << " " << count << " from " << shift << " at " << i;
        }
      }
  });
}

}  // namespace
}  // namespace wide
#endif
