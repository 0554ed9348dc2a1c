#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace wide {

/// Stride, padding (in front of each axis) and dilation of every spatial axis, and the sizes of the
/// result along them.
struct DepthwiseConvolution {
  std::vector<int64_t> stride, padding, dilation, output;
};

/// `wide::depthwise_convolution`: each channel with its own filters, summed from a padded copy of
/// its image directly into the result. x `[N, B, C, ...]` of one or two spatial axes in any layout,
/// w `[N, O, 1, ...]` with O a multiple of C, bias `[N, O]` or none; result `[N, B, O, ...]`,
/// contiguous; float32 on the CPU. A sum with `residual` and an activation (activations.h) may come
/// after it. Inference only: its gradient is refused. Source: torch.nn.Conv1d and Conv2d with
/// groups = in_channels.
at::Tensor depthwise_convolution(const at::Tensor& x, const at::Tensor& w,
                                 const std::optional<at::Tensor>& bias,
                                 const DepthwiseConvolution& layer);

}  // namespace wide
