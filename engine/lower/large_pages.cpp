#include "engine/lower/large_pages.h"

#include <ATen/ops/empty_like.h>
#include <sys/mman.h>

#include <cstdint>

namespace wide {

at::Tensor in_large_pages(at::Tensor untouched) {
  // From here on the C library maps every block by itself and unmaps it when it is freed, so that
  // what was asked for ends with the tensor (mallopt(3), DEFAULT_MMAP_THRESHOLD_MAX).
  constexpr uintptr_t kMappedAlone = uintptr_t{32} << 20;
  constexpr uintptr_t kLarge = uintptr_t{2} << 20;
  if (!untouched.is_cpu() || untouched.nbytes() <= kMappedAlone) return untouched;
  const auto begin = reinterpret_cast<uintptr_t>(untouched.data_ptr());
  const uintptr_t first = (begin + kLarge - 1) / kLarge * kLarge;
  const uintptr_t end = (begin + untouched.nbytes()) / kLarge * kLarge;
  madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
  return untouched;
}

at::Tensor copy_in_large_pages(const at::Tensor& tensor) {
  return in_large_pages(at::empty_like(tensor)).copy_(tensor);
}

}  // namespace wide
