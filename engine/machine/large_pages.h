#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// Memory of fewer bytes is in small pages.
constexpr int64_t kLargePage_bytes = int64_t{2} << 20;

/// An uninitialised contiguous tensor for values that are kept and read repeatedly, such as
/// weights: on the CPU, from kLargePage_bytes on, in large pages. In small pages, reading 16 MB
/// from the last-level cache is a third slower (TLB misses), and first writes take far longer.
/// Without large pages it is an ordinary tensor (madvise(2), MADV_HUGEPAGE).
at::Tensor empty_to_keep(at::IntArrayRef sizes, const at::TensorOptions& options);

/// A copy by empty_to_keep, with the layout of at::empty_like. Contenders that are timed use such
/// copies, as the speed of reading a large tensor in small pages varies by up to 20 %.
at::Tensor copy_to_keep(const at::Tensor& tensor);

}  // namespace wide
