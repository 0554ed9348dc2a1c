#include "engine/machine/large_pages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/util/strides.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace wide {
namespace {

constexpr auto kLarge = static_cast<uintptr_t>(kLargePage_bytes);

uintptr_t rounded_up(uintptr_t address, uintptr_t to) { return (address + to - 1) / to * to; }

/// Memory that begins with a large page; nullptr if the system has none.
void* map_large(size_t bytes) {
  constexpr int kProtection = PROT_READ | PROT_WRITE, kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  void* const all = mmap(nullptr, bytes + kLarge, kProtection, kFlags, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  const auto from = reinterpret_cast<uintptr_t>(all), begin = rounded_up(from, kLarge);
  if (begin > from) munmap(all, begin - from);
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t end = rounded_up(begin + bytes, page), past = from + bytes + kLarge;
  if (past > end) munmap(reinterpret_cast<void*>(end), past - end);
  auto* const data = reinterpret_cast<void*>(begin);
  madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

/// The counter of allocations on this thread, or nullptr (count_peak_bytes in engine/device.h).
const void* who_counts() {
  return c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE);
}
void report(void* data, int64_t bytes) {
  if (who_counts() != nullptr) c10::reportMemoryUsageToProfiler(data, bytes, 0, 0, c10::kCPU);
}

/// Memory of freed tensors, for others that fit. It lives as long as the process: tensors may be
/// freed while static objects are destroyed.
class UnusedMemory {
 public:
  static UnusedMemory& of_process() {
    static auto* const memory = new UnusedMemory;
    return *memory;
  }

  /// The block that was freed last of the smallest ones that fit; new memory if none fits.
  void* take(size_t bytes, size_t& block_bytes) {
    const std::lock_guard lock(mutex_);
    ++taken_;
    auto best = blocks_.end();
    for (auto it = blocks_.begin(); it != blocks_.end(); ++it)
      if (it->bytes >= bytes && it->bytes <= bytes + bytes / 4 &&
          (best == blocks_.end() || it->bytes <= best->bytes))
        best = it;
    void* data = nullptr;
    block_bytes = bytes;
    if (best != blocks_.end()) {
      data = best->data;
      block_bytes = best->bytes;
      unused_bytes_ -= best->bytes;
      blocks_.erase(best);
    }
    most_used_bytes_ = std::max(most_used_bytes_, used_bytes_ + block_bytes);
    while (!blocks_.empty() && (blocks_.front().freed_after + kKept < taken_ ||
                                used_bytes_ + block_bytes + unused_bytes_ > most_used_bytes_))
      free_oldest();
    if (data == nullptr) data = map_large(bytes);
    if (data != nullptr) used_bytes_ += block_bytes;
    return data;
  }

  void give(void* data, size_t bytes) {
    const std::lock_guard lock(mutex_);
    used_bytes_ -= bytes;
    unused_bytes_ += bytes;
    blocks_.push_back({data, bytes, taken_});
  }

  void free_all() {
    const std::lock_guard lock(mutex_);
    while (!blocks_.empty()) free_oldest();
    most_used_bytes_ = used_bytes_;
  }

 private:
  /// A block is freed after so many tensors for which it was not taken.
  static constexpr int64_t kKept = 256;

  struct Block {
    void* data;
    size_t bytes;
    int64_t freed_after;  // value of taken_
  };

  void free_oldest() {
    munmap(blocks_.front().data, blocks_.front().bytes);
    unused_bytes_ -= blocks_.front().bytes;
    blocks_.pop_front();
  }

  std::mutex mutex_;
  std::deque<Block> blocks_;  // the one freed last is at the back
  size_t used_bytes_ = 0, unused_bytes_ = 0, most_used_bytes_ = 0;
  int64_t taken_ = 0;
};

using Free = std::function<void(void*)>;

/// A tensor in memory of ours, which `free` frees, with strides that leave no gaps between
/// elements.
at::Tensor tensor_in(void* data, size_t bytes, at::IntArrayRef sizes, at::IntArrayRef strides,
                     const at::TensorOptions& options, Free free) {
  const auto count = static_cast<int64_t>(bytes);
  const void* const counted_by = who_counts();
  report(data, count);
  return at::for_blob(data, sizes)
      .strides(strides)
      .options(options.device(c10::kCPU))  // no index, as at::empty
      .allocator(c10::GetAllocator(c10::kCPU))
      .resizeable_storage()  // callers may enlarge it
      .deleter([free = std::move(free), count, counted_by](void* memory) {
        free(memory);
        if (counted_by == who_counts()) report(memory, -count);  // else it was not counted
      })
      .make_tensor();
}

size_t bytes_of(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return static_cast<size_t>(c10::multiply_integers(sizes)) * options.dtype().itemsize();
}

at::Tensor strided_to_keep(at::IntArrayRef sizes, at::IntArrayRef strides,
                           const at::TensorOptions& options) {
  const size_t bytes = bytes_of(sizes, options);
  void* const data = options.device().is_cpu() && bytes >= kLarge ? map_large(bytes) : nullptr;
  if (data == nullptr) return at::empty_strided(sizes, strides, options);
  return tensor_in(data, bytes, sizes, strides, options,
                   [bytes](void* memory) { munmap(memory, bytes); });
}

}  // namespace

at::Tensor empty_to_keep(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return strided_to_keep(sizes, c10::contiguous_strides(sizes), options);
}

at::Tensor empty_to_reuse(at::IntArrayRef sizes, const at::TensorOptions& options,
                          int64_t from_bytes) {
  const size_t bytes = bytes_of(sizes, options);
  size_t block_bytes = 0;
  void* const data = options.device().is_cpu() && bytes >= static_cast<size_t>(from_bytes)
                         ? UnusedMemory::of_process().take(bytes, block_bytes)
                         : nullptr;
  if (data == nullptr) return at::empty(sizes, options);
  return tensor_in(
      data, bytes, sizes, c10::contiguous_strides(sizes), options,
      [block_bytes](void* memory) { UnusedMemory::of_process().give(memory, block_bytes); });
}

void free_unused_memory() { UnusedMemory::of_process().free_all(); }

at::Tensor copy_to_keep(const at::Tensor& tensor) {
  const at::Tensor like = at::empty_like(tensor, tensor.options().device(c10::kMeta));
  return strided_to_keep(like.sizes(), like.strides(), tensor.options()).copy_(tensor);
}

}  // namespace wide
