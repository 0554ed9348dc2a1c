#pragma once
#include <cstdint>

namespace wide {

/// Sum of squares, in double; not finite only if a number is not finite.
double sum_of_squares(const float* data, int64_t count);
double sum_of_squares(const double* data, int64_t count);

}  // namespace wide
