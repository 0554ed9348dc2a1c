#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace wide {

/// The engine's own normalisations: statistics and each model's affine part in one pass over
/// memory. float32 on the CPU, inference only: their gradients are refused. Weights are contiguous
/// `[N, C]` or absent. Each is an operator `wide::NAME` with an out-form, which may write over its
/// first argument; `activation` (activations.h) and `stream` (past the caches) are set by the plan.
namespace norms {

using OptionalTensor = std::optional<at::Tensor>;

/// (x - mean) / sqrt(var + eps) * w + b over the last `d` elements, `d` the last axes of x
/// `[N, ..., D]` contiguous; without mean when `rms`. weight and bias `[R, D]`: row r is used for
/// rows / R consecutive rows of x (R = N, or N*B for an affine part per sample).
at::Tensor layer_norm(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                      int64_t d, double eps, bool rms);

/// x `[N, B, C, ...]` whose samples `[C, ...]` are contiguous; statistics per sample and group of
/// channels, weight and bias `[N, C]`.
at::Tensor group_norm(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                      int64_t groups, double eps);

/// Training batch norm of x `[N, B, C, ...]`: y, mean and 1/sqrt(var + eps) of the batch `[N, C]`,
/// new running mean and variance `[N, C]` (the old ones absent: of size 0).
std::vector<at::Tensor> batch_norm(const at::Tensor& x, const OptionalTensor& weight,
                                   const OptionalTensor& bias, const OptionalTensor& running_mean,
                                   const OptionalTensor& running_var, double momentum, double eps);

/// x * scale + shift, one of both `[N, C]` per channel of x `[N, B, C, ...]`.
at::Tensor scale_shift(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift);

/// x `[N, B, C, ...]` if group_norm can read it, else a contiguous copy; `readable`: the same for
/// batch_norm and scale_shift, which also read channels last.
at::Tensor with_whole_samples(const at::Tensor& x);
at::Tensor readable(const at::Tensor& x);

}  // namespace norms

}  // namespace wide
