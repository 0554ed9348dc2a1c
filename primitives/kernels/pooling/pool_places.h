#pragma once
#include <ATen/core/Tensor.h>

#include <utility>

#include "primitives/kernels/pooling/pool.h"

namespace wide {

/// Max pooling of `[images, channels, H, W]` float32, and the index of the greatest element in its
/// window, counted row by row, as a byte. Both agree with ATen's max_pool2d_with_indices, NaN and
/// equal elements included. Results have the layout of x, contiguous or channels last. For windows
/// without dilation, of at most 255 elements.
std::pair<at::Tensor, at::Tensor> max_pool_places(const at::Tensor& x, const PoolWindow& window,
                                                  bool ceil);

/// The gradient for x, of these sizes and this layout, from the result's gradient g; summed in
/// ATen's order.
at::Tensor max_pool_backward(const at::Tensor& g, const at::Tensor& places, at::IntArrayRef sizes,
                             const PoolWindow& window, bool channels_last);

}  // namespace wide
