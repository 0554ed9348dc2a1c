#pragma once
#include <ATen/core/Tensor.h>

#include <utility>

#include "primitives/kernels/pooling/pool.h"

namespace wide {

/// Max pooling of `[images, channels, H, W]` float32, and where in its window the greatest element
/// is: its number there, row by row, as a byte. Both are what ATen's max_pool2d_with_indices finds,
/// NaN and equal elements included, in the layout of x, contiguous or channels last. For windows
/// without dilation, of at most 255 elements.
std::pair<at::Tensor, at::Tensor> max_pool_places(const at::Tensor& x, const PoolWindow& window,
                                                  bool ceil);

/// The gradient by x, of these sizes and in this layout, of the gradient g by the result; added up
/// in ATen's order.
at::Tensor max_pool_backward(const at::Tensor& g, const at::Tensor& places, at::IntArrayRef sizes,
                             const PoolWindow& window, bool channels_last);

}  // namespace wide
