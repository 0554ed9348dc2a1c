#pragma once
#include <cstdint>

namespace wide {

/// Sum of squares, in double; not finite where a number is not, and only then.
double sum_of_squares(const float* data, int64_t count);
double sum_of_squares(const double* data, int64_t count);

}  // namespace wide
