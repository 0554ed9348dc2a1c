#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// softmax, or its logarithm, over the last dimension of a contiguous float32 tensor. A row with
/// NaN is NaN, as is one of nothing but -infinity. Relative errors are below 7e-7, 1e-9 for every
/// element of the row, and 6e-8 for every unit below the row's greatest, which is lost where that
/// is taken off; those of the logarithm below the first two, of the greater of it and one. What is
/// below e^-87 of the greatest is zero.
at::Tensor softmax(const at::Tensor& x, bool log);

}  // namespace wide
