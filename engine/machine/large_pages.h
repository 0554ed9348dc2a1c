#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// An uninitialised contiguous tensor for values that are kept and read repeatedly, such as
/// weights: on the CPU, from 2 MB on, in large pages. In small pages, reading 16 MB from the
/// last-level cache is a third slower (TLB misses), and first writes take far longer. Without large
/// pages it is an ordinary tensor (madvise(2), MADV_HUGEPAGE).
at::Tensor empty_to_keep(at::IntArrayRef sizes, const at::TensorOptions& options);

/// An uninitialised contiguous tensor for values of one call, such as gradients. From `from_bytes`
/// on, its memory is in large pages and goes to the next such tensor that fits when it is freed:
/// memory new from the system costs a page fault for each 4 KB, a third of a training step of large
/// layers. Used and unused memory are never more than was once used at the same time. Unused memory
/// is given back to the system by free_unused_memory, and after 256 tensors for which it was not
/// taken.
at::Tensor empty_to_reuse(at::IntArrayRef sizes, const at::TensorOptions& options,
                          int64_t from_bytes);
constexpr int64_t kLargePage_bytes = int64_t{2} << 20;
constexpr int64_t kUnmapped_bytes = int64_t{32} << 20;  // what malloc unmaps when it is freed

/// Gives the memory back that freed tensors of empty_to_reuse have left.
void free_unused_memory();

/// A copy by empty_to_keep, with the layout of at::empty_like. Contenders that are timed use such
/// copies, as the speed of reading a large tensor in small pages varies by up to 20 %.
at::Tensor copy_to_keep(const at::Tensor& tensor);

}  // namespace wide
