#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace wide {

/// Weights `[N, K, O]` as `bf16_linear` reads them, rows in interleaved pairs: `[N, ceil(K / 2), O,
/// 2]`.
at::Tensor pack_pairs(const at::Tensor& weight);

/// `wide::bf16_linear`: out[n] = activation(x[n] weight[n] + bias[n]) for every n, summed in
/// float32 and rounded once; x `[N, M, K]` of any strides, pairs of `pack_pairs`, bias `[N, O]`
/// or none, result `[N, M, O]`; bfloat16. Inference only: its gradient is refused. `activation`:
/// "none" or what activations::find takes.
at::Tensor bf16_linear(const at::Tensor& x, const at::Tensor& pairs,
                       const std::optional<at::Tensor>& bias);

}  // namespace wide
