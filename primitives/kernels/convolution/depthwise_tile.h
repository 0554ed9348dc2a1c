#pragma once
#include <cstdint>

/// The innermost part of the depthwise convolution: one filter over one padded image.
namespace wide::depthwise_tile {

/// out[y][x] = bias + sum over taps i, j of filter[i * columns + j] *
///   image[(y * row_step + i * row_dilation) * pitch + offsets[j] + x], y < out_rows,
/// x < out_columns; rows of `out` one after the other. Vector loads read up to kSpare floats past
/// the last one used, so the caller's buffer must have them.
struct Plane {
  const float* image = nullptr;
  int64_t pitch = 0;  // from one row of the image to the next
  const float* filter = nullptr;
  int64_t rows = 0, columns = 0;  // taps
  /// [columns]: where the inputs of tap j begin in a row of the image. Not always j * dilation, as
  /// the caller reorders columns for strides.
  const int64_t* offsets = nullptr;
  int64_t row_step = 1, row_dilation = 1;
  float bias = 0;
  float* out = nullptr;
  int64_t out_rows = 0, out_columns = 0;
  bool relu = false;  // keeps NaN, as relu does
};

constexpr int64_t kSpare = 16;

void compute(const Plane& plane);

}  // namespace wide::depthwise_tile
