#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace wide {

/// Each row of `x` `[rows..., width]` reduced to one number: `kind` "sum", "mean", "amax" (NaN
/// where one is in the row), "logsumexp", or "argmax" (int64: the first of the greatest, NaN above
/// all). The last `dims` dimensions are a row, of at least one element, and stay with size one
/// where `keepdim`. x contiguous float32 on the CPU. Inference only: its gradient is refused.
at::Tensor reduce_rows(const at::Tensor& x, const std::string& kind, int64_t dims, bool keepdim);

/// The sum of `count` floats, whose order depends on the instruction set alone.
float sum_of_row(const float* x, int64_t count);
/// sums[i] = the sum of x[r * width + i] over the rows, from the first on.
void sum_of_rows(const float* x, int64_t rows, int64_t width, float* sums);

}  // namespace wide
