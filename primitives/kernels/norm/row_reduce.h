#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace wide {

/// Each row of `x` `[rows..., width]` reduced to one number: `kind` "sum", "mean", "amax" (NaN if
/// any is NaN), "logsumexp", or "argmax" (int64: the first greatest; NaN counts as greatest). The
/// last `dims` dimensions form a row, of at least one element, and keep size 1 with `keepdim`. x
/// contiguous float32 on the CPU. Inference only: its gradient is refused.
at::Tensor reduce_rows(const at::Tensor& x, const std::string& kind, int64_t dims, bool keepdim);

/// The sum of `count` floats, in an order that depends only on the instruction set.
float sum_of_row(const float* x, int64_t count);
/// sums[i] = the sum of x[r * width + i] over the rows, from the first on.
void sum_of_rows(const float* x, int64_t rows, int64_t width, float* sums);

}  // namespace wide
