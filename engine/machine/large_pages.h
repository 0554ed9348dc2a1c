#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// A contiguous tensor of unknown contents, for what is kept and read again and again, such as
/// weights: on the CPU and from 2 MB on in memory of its own, in large pages. Of 16 MB that lie in
/// the last cache a third of the speed is lost in small ones, to finding out where each of them is,
/// and to touch new memory takes far longer. Where the system has none nothing changes (madvise(2),
/// MADV_HUGEPAGE).
at::Tensor empty_to_keep(at::IntArrayRef sizes, const at::TensorOptions& options);

/// A copy to keep, laid out as at::empty_like does it. Who is timed beside others reads such a copy
/// as they do: in small pages it is chance how quickly a large tensor is read, by up to a fifth.
at::Tensor copy_to_keep(const at::Tensor& tensor);

}  // namespace wide
