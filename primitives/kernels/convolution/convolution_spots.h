#pragma once
#include <cstdint>
#include <vector>

#include "primitives/kernels/convolution/convolution_tile.h"

/// The direct convolution with vectors along filters: each of up to eight results at a time by
/// itself, wherever it lies. Where rows of results are short or end with a few of a vector, vectors
/// along rows (convolution_tile.h) would be half empty.
namespace wide::convolution_spots {

/// What is the same for all images of a call.
struct Layer {
  const convolution_tile::Tap* taps = nullptr;
  int64_t tap_count = 0, channels = 0, channel_pitch = 0;
  int64_t filters = 0;
  bool relu = false;             // keeps NaN, as relu does
  std::vector<int64_t> offsets;  // of every result: what its taps are counted from in an image
};

/// Whether this machine's vectors are long enough, and so many fewer of them are needed than by
/// `runs` of convolution_tile::kPositions results each that it takes less time.
bool worth_it(int64_t results, int64_t filters, int64_t channels, int64_t runs);

/// out[filter * results + i] = bias[filter] + sum over taps and channels c of
///   filters[tap + c * kFilters + filter] * image[offsets[i] + tap + c * channel_pitch],
/// filters in blocks of kFilters as in convolution_tile::Tile, `block_floats` apart. No bias: zero.
void compute(const Layer& layer, const float* image, const float* filters, int64_t block_floats,
             const float* bias, float* out);

}  // namespace wide::convolution_spots
