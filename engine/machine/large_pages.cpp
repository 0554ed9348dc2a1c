#include "engine/machine/large_pages.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/util/strides.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

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

/// A tensor with these strides, which leave no gaps between elements.
at::Tensor strided_to_keep(at::IntArrayRef sizes, at::IntArrayRef strides,
                           const at::TensorOptions& options) {
  const auto bytes =
      static_cast<size_t>(c10::multiply_integers(sizes)) * options.dtype().itemsize();
  void* const data = options.device().is_cpu() && bytes >= kLarge ? map_large(bytes) : nullptr;
  if (data == nullptr) return at::empty_strided(sizes, strides, options);
  const auto count = static_cast<int64_t>(bytes);
  const void* const counted_by = who_counts();
  report(data, count);
  return at::for_blob(data, sizes)
      .strides(strides)
      .options(options.device(c10::kCPU))  // no index, as at::empty
      .allocator(c10::GetAllocator(c10::kCPU))
      .resizeable_storage()  // callers may enlarge it
      .deleter([bytes, count, counted_by](void* memory) {
        munmap(memory, bytes);
        if (counted_by == who_counts()) report(memory, -count);  // else it was not counted
      })
      .make_tensor();
}

}  // namespace

at::Tensor empty_to_keep(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return strided_to_keep(sizes, c10::contiguous_strides(sizes), options);
}

at::Tensor copy_to_keep(const at::Tensor& tensor) {
  const at::Tensor like = at::empty_like(tensor, tensor.options().device(c10::kMeta));
  return strided_to_keep(like.sizes(), like.strides(), tensor.options()).copy_(tensor);
}

}  // namespace wide
