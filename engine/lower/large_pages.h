#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// Asks the system for large pages under a tensor on the CPU that nobody has written to yet, and
/// gives it back: to touch new memory page by page takes far longer than to write it, and in pages
/// of 2 MB much less. Small tensors and other devices are left alone; where the system has no large
/// pages nothing changes (madvise(2), MADV_HUGEPAGE).
at::Tensor in_large_pages(at::Tensor untouched);

/// A copy in large pages. In small ones it is chance how quickly a large tensor is read, by up to a
/// fifth: who is timed beside others reads such a copy as they do.
at::Tensor copy_in_large_pages(const at::Tensor& tensor);

}  // namespace wide
