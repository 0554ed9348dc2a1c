#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace wide {

/// Normalisation kernels, each with every model's own affine part (weight and bias, absent: ones
/// and zeros). float32 on the CPU; gradients are refused. Each function calls the operator
/// `wide::NAME`, which throws c10::Error for other layouts of x. The plan (engine/lower/plan) may
/// call it so that it writes over x, applies an activation, or writes past the caches (its argument
/// `stream`).
namespace norms {

using OptionalTensor = std::optional<at::Tensor>;

/// (x - mean) / sqrt(var + eps) * w + b over rows of `d` elements, the last axes of the contiguous
/// x `[N, ..., D]`; `rms`: x / sqrt(mean(x²) + eps) * w + b. weight and bias are `[N, D]`, or
/// `[N*B, D]` for an affine part per sample: equal numbers of consecutive rows of x share one.
at::Tensor layer_norm(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                      int64_t d, double eps, bool rms);

/// x `[N, B, C, ...]` whose samples `[C, ...]` are contiguous; statistics per sample and group of
/// channels, weight and bias `[N, C]`.
at::Tensor group_norm(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                      int64_t groups, double eps);

/// Training batch norm of x `[N, B, C, ...]`. Returns y and, as `[N, C]`, the batch's mean and
/// 1/sqrt(var + eps), and the new running mean and variance (of size 0 if there are no old ones).
std::vector<at::Tensor> batch_norm(const at::Tensor& x, const OptionalTensor& weight,
                                   const OptionalTensor& bias, const OptionalTensor& running_mean,
                                   const OptionalTensor& running_var, double momentum, double eps);

/// x * scale + shift for x `[N, B, C, ...]`, scale and shift `[N, C]`.
at::Tensor scale_shift(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift);

/// x `[N, B, C, ...]` itself if group_norm can read its layout, else a contiguous copy.
at::Tensor for_group_norm(const at::Tensor& x);
/// The same for batch_norm and scale_shift, which can also read channels_last.
at::Tensor for_batch_norm(const at::Tensor& x);

}  // namespace norms

}  // namespace wide
