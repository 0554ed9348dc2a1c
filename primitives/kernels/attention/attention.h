#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// `wide::attention`: softmax(scale q kᵀ + mask) v for every head. q `[N, B, H, T, D]`, k `[N, B,
/// H, S, D]`, v `[N, B, H, S, E]`, of any strides, but the last axis of q and v contiguous; `mask`,
/// if defined, broadcasts to `[N, B, H, T, S]` and is added, or is bool and true where a score
/// counts; if `causal`, row t uses columns up to t only. A row whose scores the mask leaves out is
/// 0 with `empty_is_zero`, else NaN. Result `[N, B, H, T, E]`, laid out as `[N, B, T, H, E]`;
/// float32 on the CPU. Inference only: its gradient is refused.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const at::Tensor& mask, bool causal, double scale, bool empty_is_zero = false);

}  // namespace wide
