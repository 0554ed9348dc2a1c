#include "engine/machine/large_pages.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/device.h"
#include "tests/engine/large_pages.h"

namespace wide::large_pages_test {
namespace {

using at::Tensor;

constexpr int64_t kMegabyte = 1 << 20;

TEST(LargePages, WhatIsKeptBeginsWithOne) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"))
    GTEST_SKIP() << "this kernel has no large pages";
  const Tensor small = empty_to_keep({2 * kMegabyte - 1}, at::kByte);
  const Tensor large = empty_to_keep({3, kMegabyte}, at::kFloat);
  EXPECT_FALSE(asked_for_large_pages(small));
  EXPECT_TRUE(asked_for_large_pages(large));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data_ptr()) % (2 * kMegabyte), 0U);
  EXPECT_EQ(large.sizes(), at::IntArrayRef({3, kMegabyte}));
  EXPECT_TRUE(large.is_contiguous());
  EXPECT_EQ(large.scalar_type(), at::kFloat);
}

/// Odd sizes, so that the last page is not whole.
TEST(LargePages, CopiesLieAsWhatTheyAreCopiesOf) {
  const Tensor plain = at::randn({1031, 1033}), turned = plain.t();
  for (const Tensor& t : {plain, turned, plain.slice(1, 0, 1000)}) {
    const Tensor copy = copy_to_keep(t);
    EXPECT_TRUE(copy.equal(t));
    EXPECT_FALSE(copy.is_alias_of(t));
    EXPECT_EQ(copy.strides(), at::empty_like(t).strides());
  }
}

TEST(LargePages, WhatIsKeptMayBeEnlarged) {
  Tensor t = empty_to_keep({1, kMegabyte}, at::TensorOptions(at::Device(at::kCPU, 0))).fill_(3);
  t.resize_({0});
  at::add_out(t, at::ones({2, kMegabyte}), at::ones({1}));
  EXPECT_TRUE(t.equal(at::full({2, kMegabyte}, 2.0F)));
}

/// Every page that was mapped goes with its tensor.
TEST(LargePages, MemoryEndsWithItsTensor) {
  const auto mapped_kilobytes = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.rfind("VmSize:", 0) == 0) return std::stol(line.substr(7));
    return -1L;
  };
  const auto once = [] { empty_to_keep({5 * kMegabyte + 13}, at::kByte).fill_(1); };
  once();
  const long before = mapped_kilobytes();
  for (int i = 0; i < 20; ++i) once();
  EXPECT_LT(mapped_kilobytes() - before, 2 * kMegabyte / 1024);
}

TEST(LargePages, AreCountedWithWhatElseIsAllocated) {
  Tensor kept = empty_to_keep({4 * kMegabyte}, at::kByte);
  const int64_t peak = count_peak_bytes(at::kCPU, [&] {
    empty_to_keep({8 * kMegabyte}, at::kByte);
    kept = empty_to_keep({6 * kMegabyte}, at::kByte);  // what is older goes uncounted
    empty_to_keep({3 * kMegabyte}, at::kByte);
  });
  EXPECT_EQ(peak, 9 * kMegabyte);
}

}  // namespace
}  // namespace wide::large_pages_test
