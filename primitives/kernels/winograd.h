#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace wide {

/// `wide::winograd_convolution`: every model's 3 x 3 convolution of stride 1 with 16 products for
/// four results instead of 36: F(2x2, 3x3) of Lavin and Gray, "Fast Algorithms for Convolutional
/// Neural Networks", 2016. x `[N, B, C, H, W]` in any layout, filters from `winograd_filters`, bias
/// `[N, O]` or none, `out_channels` O, `padding` of H and W; result `[N, B, O, H', W']`,
/// contiguous; float32 on the CPU. Rounding is about twice that of the plain sum, and an infinity
/// makes NaN of the results beside those that read it. Inference only: its gradient is refused.
at::Tensor winograd_convolution(const at::Tensor& x, const at::Tensor& filters,
                                const std::optional<at::Tensor>& bias, int64_t out_channels,
                                const std::vector<int64_t>& padding);

/// Weights `[N, O, C, 3, 3]` as the operator reads them: transformed, `[N, blocks of 8 filters, 16,
/// C, 8]`, missing filters zero.
at::Tensor winograd_filters(const at::Tensor& weight);

}  // namespace wide
