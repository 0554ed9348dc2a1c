#pragma once
#include <array>
#include <cstdint>

/// The innermost part of the direct convolution: a tile of filters times a few runs of positions.
namespace wide::convolution_tile {

constexpr int kFilters = 8;     // filters of a tile
constexpr int kPositions = 16;  // positions of a run: neighbours in the last axis
constexpr int kRuns = 3;        // runs of a tile at most

/// One tap of the kernel: how far its inputs lie from a run's own, and where its filters begin.
struct Tap {
  int64_t input = 0, filters = 0;
};

/// Which of a run's positions a tap finds inside its image, bit by bit; the others read as zero.
using Inside = std::array<uint16_t, kRuns>;

/// out[run][filter * pitch + i] = bias[filter] + sum over taps and channels c of
///   filters[tap + c * kFilters + filter] * input[run][tap + c * channel_pitch + i], i < count.
/// Reads kPositions floats of every run whatever its count, but only what is inside where `inside`
/// says it.
struct Tile {
  const float* filters = nullptr;  // of one block: [tap][channel][kFilters]
  const Tap* taps = nullptr;
  const Inside* inside = nullptr;  // by tap, or none; only where reads_inside()
  int64_t tap_count = 0, channels = 0, channel_pitch = 0;
  const float* bias = nullptr;  // kFilters of them
  bool relu = false;            // keeps NaN, as relu does
  const float* input[kRuns] = {};
  float* out[kRuns] = {};
  int count[kRuns] = {};  // positions that are there, 1..kPositions
  int64_t pitch = 0;      // from one filter's result to the next
  int rows = kFilters;    // filters that are there
};

/// Whether this machine's vectors can leave out positions while they are read.
bool reads_inside();

/// Computes the first `runs` runs of the tile.
void compute(const Tile& tile, int runs);

}  // namespace wide::convolution_tile
