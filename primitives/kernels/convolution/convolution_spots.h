#pragma once
#include <cstdint>
#include <vector>

#include "primitives/kernels/convolution/convolution_tile.h"

/// The direct convolution with vectors along filters: up to eight results at a time, at any
/// positions. If rows of results are short or end in a partial vector, vectors along rows
/// (convolution_tile.h) would be half empty.
namespace wide::convolution_spots {

/// Values that all images of a call share.
struct Layer {
  const convolution_tile::Tap* taps = nullptr;
  int64_t tap_count = 0, channels = 0, channel_pitch = 0;
  int64_t filters = 0;
  bool relu = false;             // keeps NaN, as relu does
  std::vector<int64_t> offsets;  // by result: start in the image, to which Tap::input is added
};

/// Whether the CPU has AVX-512, and `compute` is estimated to take less time than convolution_tile,
/// which computes the same results in `runs` runs of kPositions each.
bool worth_it(int64_t results, int64_t filters, int64_t channels, int64_t runs);

/// out[f * results + i] = bias[f] + the sum over taps t and channels c of
///   filters[t.filters + c * kFilters + f] * image[offsets[i] + t.input + c * channel_pitch]
/// for the first kFilters filters; the next kFilters lie `block_floats` further. `bias` may be
/// null. Call it only if `worth_it` returned true: without AVX-512 `out` is not computed.
void compute(const Layer& layer, const float* image, const float* filters, int64_t block_floats,
             const float* bias, float* out);

}  // namespace wide::convolution_spots
