#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace wide {

/// `wide::pack_panels`: weights `[N, K, O]` of any strides and a bias `[N, O]` or none as
/// `packed_linear` reads them, `[N, floats]` (panel_gemm.h); once for parameters (linear/packed).
at::Tensor pack_panels(const at::Tensor& weight, const std::optional<at::Tensor>& bias);

/// `wide::packed_linear`: out[n] = activation(x[n] weight[n] + bias[n] + residual[n]) for every n.
/// x `[N, M, K]` with contiguous rows, panels of `pack_panels`, result `[N, M, O]`, contiguous;
/// float32 on the CPU. Inference only: its gradient is refused. `residual` (as the result, or none)
/// and `activation` ("none" or what activations::find takes) are set by the lowering plan.
at::Tensor packed_linear(const at::Tensor& x, const at::Tensor& panels, int64_t out_features);

}  // namespace wide
