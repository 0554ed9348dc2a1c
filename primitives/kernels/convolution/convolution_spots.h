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
  std::vector<int64_t> offsets;  // for each result, where its taps' offsets start in an image
};

/// Whether this machine's vectors are long enough, and this takes less time than `runs` runs of
/// convolution_tile::kPositions results.
bool worth_it(int64_t results, int64_t filters, int64_t channels, int64_t runs);

/// out[filter * results + i] = bias[filter] + sum over taps and channels c of
///   filters[tap + c * kFilters + filter] * image[offsets[i] + tap + c * channel_pitch],
/// filters in blocks of kFilters as in convolution_tile::Tile, `block_floats` apart. No bias: 0.
void compute(const Layer& layer, const float* image, const float* filters, int64_t block_floats,
             const float* bias, float* out);

}  // namespace wide::convolution_spots
