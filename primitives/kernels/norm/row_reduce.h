#pragma once
#include <cstdint>

namespace wide {

/// The sum of `count` floats, in an order that depends only on the instruction set.
float sum_of_row(const float* x, int64_t count);
/// sums[i] = the sum of x[r * width + i] over the rows, from the first on.
void sum_of_rows(const float* x, int64_t rows, int64_t width, float* sums);

}  // namespace wide
