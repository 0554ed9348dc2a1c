#pragma once
#include <array>
#include <cstdint>

/// The innermost part of the direct convolution: a tile of filters times a few runs of positions.
namespace wide::convolution_tile {

constexpr int kFilters = 8;     // filters of a tile
constexpr int kPositions = 16;  // positions of a run: neighbours along the last axis
constexpr int kRuns = 3;        // runs of a tile at most

/// One tap of the kernel: offset of its inputs from a run's position, and of its filters.
struct Tap {
  int64_t input = 0, filters = 0;
};

/// One bit per position of a run: whether a tap's input is inside the image; others read as 0.
using Inside = std::array<uint16_t, kRuns>;

/// out[run][filter * pitch + i] = bias[filter] + sum over taps and channels c of
///   filters[tap + c * kFilters + filter] * input[run][tap + c * channel_pitch + i], i < count.
///   Reads kPositions floats of every run whatever its count; with `inside`, only those inside.
struct Tile {
  const float* filters = nullptr;  // of one block: [tap][channel][kFilters]
  const Tap* taps = nullptr;
  const Inside* inside = nullptr;  // by tap, or null; only if reads_inside()
  int64_t tap_count = 0, channels = 0, channel_pitch = 0;
  const float* bias = nullptr;  // kFilters of them
  bool relu = false;            // keeps NaN, as relu does
  const float* input[kRuns] = {};
  float* out[kRuns] = {};
  int count[kRuns] = {};  // positions that exist, 1..kPositions
  int64_t pitch = 0;      // distance between the results of two filters
  int rows = kFilters;    // filters that exist
};

/// Whether this machine has masked loads, which skip positions outside.
bool reads_inside();

/// Computes the first `runs` runs of the tile.
void compute(const Tile& tile, int runs);

}  // namespace wide::convolution_tile
