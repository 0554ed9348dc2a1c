#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// `wide::attention`: softmax(scale q kᵀ) v for every head, without a mask but, if `causal`, the
/// one that lets no row look past the column of its own number. q `[N, B, H, T, D]`, k `[N, B, H,
/// S, D]`, v `[N, B, H, S, E]`, of any strides with the last axis contiguous; result `[N, B, H, T,
/// E]`, laid out as `[N, B, T, H, E]`; float32 on the CPU. Inference only: its gradient is refused.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                     double scale);

}  // namespace wide
