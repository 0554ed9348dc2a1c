#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// `wide::blockwise_attention`: softmax(scale q kᵀ) v for every head, a block of scores at a time,
/// so that memory grows linearly with the sequence. q `[N, B, H, T, D]`, k `[N, B, H, S, D]`, v
/// `[N, B, H, S, E]`, of any strides; if `causal`, row t uses columns up to t only. Result `[N, B,
/// H, T, E]`, laid out as `[N, B, T, H, E]`; float32 on the CPU. Its gradient recomputes the
/// scores.
at::Tensor blockwise_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               bool causal, double scale);

}  // namespace wide
