#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// The gradient of softmax, or of its logarithm, over the last dimension: (g - Σ g y) y, or g - e^y
/// Σ g, where g is the gradient of the result y; contiguous float32 of the same sizes. A row with
/// NaN is NaN.
at::Tensor softmax_backward(const at::Tensor& gradient, const at::Tensor& y, bool log);

}  // namespace wide
