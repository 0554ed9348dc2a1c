#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// softmax, or its logarithm, over the last dimension of a contiguous float32 tensor. A row with
/// NaN, or of -infinity only, is NaN. The relative error is below 7e-7 + 1e-9 * (row's length) +
/// 6e-8 * (row's greatest - x), the last from rounding x - greatest; that of the logarithm is below
/// the first two terms, relative to max(|result|, 1). Results below e^-87 of the greatest are zero.
at::Tensor softmax(const at::Tensor& x, bool log);

}  // namespace wide
