#include "engine/machine/large_pages.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/device.h"
#include "tests/engine/large_pages.h"

namespace wide::large_pages_test {
namespace {

using at::Tensor;

constexpr int64_t kMegabyte = 1 << 20;

int64_t mapped_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmSize:", 0) == 0) return std::stol(line.substr(7)) / 1024;
  return -1;
}

Tensor reused(at::IntArrayRef sizes, at::ScalarType type) {
  return empty_to_reuse(sizes, type, kLargePage_bytes);
}

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
  const auto once = [] { empty_to_keep({5 * kMegabyte + 13}, at::kByte).fill_(1); };
  once();
  const int64_t before = mapped_megabytes();
  for (int i = 0; i < 20; ++i) once();
  EXPECT_LT(mapped_megabytes() - before, 2);
}

TEST(ReusedMemory, GoesFromAFreedTensorToTheNextThatFits) {
  free_unused_memory();
  const void* const first = reused({7, kMegabyte}, at::kByte).fill_(1).data_ptr();
  const Tensor smaller = reused({3, kMegabyte}, at::kShort);
  EXPECT_EQ(smaller.data_ptr(), first);
  EXPECT_TRUE(smaller.is_contiguous());
  EXPECT_NE(reused({7, kMegabyte}, at::kByte).data_ptr(), first);  // `smaller` is in use
}

TEST(ReusedMemory, IsNotThatOfSmallTensors) {
  free_unused_memory();
  const int64_t before = mapped_megabytes();
  Tensor t = empty_to_reuse({32 * kMegabyte - 1}, at::kByte, kUnmapped_bytes);
  EXPECT_FALSE(asked_for_large_pages(t));
  t = empty_to_reuse({32 * kMegabyte}, at::kByte, kUnmapped_bytes);
  EXPECT_TRUE(asked_for_large_pages(t));
  t.reset();
  EXPECT_GT(mapped_megabytes() - before, 30);
  free_unused_memory();
  EXPECT_LT(mapped_megabytes() - before, 30);
}

/// The block freed last, so that a stack of tensors finds the memory of the one before.
TEST(ReusedMemory, OfTheSameSizeTheLastIsTakenFirst) {
  free_unused_memory();
  Tensor a = reused({5 * kMegabyte}, at::kByte), b = reused({5 * kMegabyte}, at::kByte);
  const void *const of_a = a.data_ptr(), *const of_b = b.data_ptr();
  b.reset();
  a.reset();
  a = reused({5 * kMegabyte}, at::kByte);
  b = reused({5 * kMegabyte}, at::kByte);
  EXPECT_EQ(a.data_ptr(), of_a);
  EXPECT_EQ(b.data_ptr(), of_b);
}

TEST(ReusedMemory, IsNeverMoreThanWasUsedAtTheSameTime) {
  free_unused_memory();
  const int64_t before = mapped_megabytes();
  for (int64_t megabytes = 100; megabytes > 2; megabytes = megabytes * 2 / 3)  // none fits the next
    reused({megabytes, kMegabyte}, at::kByte).fill_(1);
  EXPECT_GT(mapped_megabytes() - before, 30);
  EXPECT_LT(mapped_megabytes() - before, 102);
  free_unused_memory();
  EXPECT_LT(mapped_megabytes() - before, 2);
}

TEST(ReusedMemory, IsFreedWhereItIsLongUnused) {
  free_unused_memory();
  const int64_t before = mapped_megabytes();
  reused({50, kMegabyte}, at::kByte).fill_(1);
  for (int i = 0; i < 300; ++i) reused({3, kMegabyte}, at::kByte);
  EXPECT_LT(mapped_megabytes() - before, 5);
}

TEST(ReusedMemory, IsSafeWhereThreadsTakeAndFree) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&wrong, t] {
      for (int i = 0; i < 200; ++i) {
        const Tensor mine = reused({2 + (i + t) % 3, kMegabyte}, at::kByte).fill_(t);
        wrong += !mine.eq(t).all().item<bool>();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  free_unused_memory();
}

TEST(LargePages, AreCountedWithWhatElseIsAllocated) {
  Tensor kept = empty_to_keep({4 * kMegabyte}, at::kByte);
  const int64_t peak = count_peak_bytes(at::kCPU, [&] {
    empty_to_keep({8 * kMegabyte}, at::kByte);
    kept = empty_to_keep({6 * kMegabyte}, at::kByte);  // what is older goes uncounted
    empty_to_keep({3 * kMegabyte}, at::kByte);
  });
  EXPECT_EQ(peak, 9 * kMegabyte);
  free_unused_memory();
  const auto twice = [] {
    for (int i = 0; i < 2; ++i) reused({8 * kMegabyte}, at::kByte);
  };
  EXPECT_EQ(count_peak_bytes(at::kCPU, twice), 8 * kMegabyte);  // what is unused is not counted
}

}  // namespace
}  // namespace wide::large_pages_test
