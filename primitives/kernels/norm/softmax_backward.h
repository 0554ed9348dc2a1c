#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// What the gradient of softmax, or of its logarithm, over the last dimension is: (g - Σ g y) y,
/// or g - e^y Σ g, of the gradient g of the result and the result y, contiguous float32 of the same
/// sizes. A row with NaN is NaN.
at::Tensor softmax_backward(const at::Tensor& gradient, const at::Tensor& y, bool log);

}  // namespace wide
