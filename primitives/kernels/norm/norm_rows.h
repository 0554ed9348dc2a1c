#pragma once
#include <cstdint>

/// Sums and multiply-adds over rows of floats: the parts of the normalisations. Statistics take two
/// passes (mean, then squared distances from it), both over rows in the first-level cache.
/// `stream`: stores past the caches, to rows that begin at and are multiples of 64 bytes. `relu`
/// keeps NaN.
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

/// Sums over rows `stride` apart of `width` columns, or of their squared distances from `mean`.
void column_sums(const float* x, int64_t rows, int64_t stride, int64_t width, const float* mean,
                 bool squares, double* sums);
/// plane_shift with numbers for each column; rows of x are `from` apart, rows of y `to`.
void column_shift(const float* x, float* y, int64_t rows, int64_t from, int64_t to, int64_t width,
                  const float* mean, const float* scale, const float* shift, bool relu);

}  // namespace wide::norm_rows
