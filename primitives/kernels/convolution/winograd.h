#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace wide {

/// `wide::winograd_convolution`: each model's k x k convolution of stride 1, in tiles of `tile` x
/// `tile` results with (k + tile - 1)^2 products instead of k^2 tile^2: F(2x2, 3x3), F(4x4, 3x3),
/// F(2x2, 5x5) and F(4x4, 5x5) of Lavin and Gray, "Fast Algorithms for Convolutional Neural
/// Networks", 2016. x `[N, B, C, H, W]` in any layout, weight `[N, O, C, k, k]`, bias
/// `[N, O]` or none, `padding` of H and W; result `[N, B, O, H', W']`, contiguous; float32 on the
/// CPU. Rounding errors are 1 to 2 (F(2, k)), 4 (F(4, 3)) or 5 to 15 times (F(4, 5)) those of the
/// plain sum, and an infinity also makes neighbouring results NaN. Inference only: its gradient is
/// refused.
at::Tensor winograd_convolution(const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias,
                                const std::vector<int64_t>& padding, int64_t tile);

/// Transformed weights, as the operator reads them, `[N, blocks of 8 filters, (k + tile - 1)^2, C,
/// 8]`, missing filters zero.
at::Tensor winograd_filters(const at::Tensor& weight, int64_t tile);

}  // namespace wide
