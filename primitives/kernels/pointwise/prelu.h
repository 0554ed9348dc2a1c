#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// `wide::prelu`: y = x where x > 0, else slope x. x `[N, B, C, ...]` contiguous, slopes `[N, C]`,
/// or `[N, 1]` for one slope per model. float32 on the CPU; its gradient is refused.
at::Tensor prelu(const at::Tensor& x, const at::Tensor& slopes);

}  // namespace wide
