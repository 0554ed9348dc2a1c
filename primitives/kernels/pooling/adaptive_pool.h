#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// `wide::adaptive_average_pool`: x `[..., H, W]` contiguous -> `[..., oh, ow]`; output row i is
/// the mean over rows floor(i H / oh) to ceil((i + 1) H / oh), columns alike. float32 on the CPU;
/// its gradient is refused.
at::Tensor adaptive_average_pool(const at::Tensor& x, at::IntArrayRef output_size);

}  // namespace wide
