#pragma once
#include <cstdint>

/// Loops over floats that the normalisations are made of. Statistics take two passes (the mean,
/// then squared distances from it), the second one over data that is in cache by then. `stream`:
/// stores past the caches; rows must then begin at multiples of 64 bytes and have such a length.
/// `relu`: max(y, 0), with NaN kept.
namespace wide::norm_rows {

/// y = (x - mean) / sqrt(var + eps) * w + b over `rows` rows of `d`; without the mean when `rms`.
void layer_rows(const float* x, const float* w, const float* b, float* y, int64_t rows, int64_t d,
                float eps, bool rms, bool relu, bool stream);

float plane_sum(const float* x, int64_t n);
/// The sum of (x - mean)^2.
float plane_squares(const float* x, int64_t n, float mean);
/// y = (x - mean) * scale + shift.
void plane_shift(const float* x, float* y, int64_t n, float mean, float scale, float shift,
                 bool relu, bool stream);

constexpr int64_t kColumns = 16;  // columns of a block at most: a cache line

/// The sum of each of `width` columns, over rows that are `stride` apart; `squares`: the sum of
/// (x - mean)^2 instead.
void column_sums(const float* x, int64_t rows, int64_t stride, int64_t width, const float* mean,
                 bool squares, double* sums);
/// plane_shift with a mean, scale and shift for each column. Rows of x are `from` apart, of y `to`.
void column_shift(const float* x, float* y, int64_t rows, int64_t from, int64_t to, int64_t width,
                  const float* mean, const float* scale, const float* shift, bool relu);

}  // namespace wide::norm_rows
