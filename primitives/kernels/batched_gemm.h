#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace wide {

/// `wide::batched_gemm`: out[n] = activation(a[n] b[n] + bias[n]) for every n.
/// a `[N, M, K]`, b `[N, K, O]` (rows contiguous in both), bias `[N, O]` or none, result
/// `[N, M, O]`; float32 on the CPU. Inference only: its gradient is refused.
/// `activation`: "none", "relu", "silu", "gelu" or "gelu_tanh", computed where the product lies.
at::Tensor batched_gemm(const at::Tensor& a, const at::Tensor& b,
                        const std::optional<at::Tensor>& bias);

/// Whether the operator can take these; else use the ATen form.
bool batched_gemm_applies(const at::Tensor& a, const at::Tensor& b);

}  // namespace wide
