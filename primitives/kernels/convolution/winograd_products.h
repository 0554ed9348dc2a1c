#pragma once
#include <cstdint>

/// The sums over channels of Winograd's convolutions: a product of filters and patches for each
/// frequency.
namespace wide::winograd {

constexpr int64_t kFilters = 8;     // in a block
constexpr int64_t kPositions = 16;  // patches in a run
constexpr int64_t kRuns = 3;        // runs in a chunk, at most
constexpr int64_t kChunk = kRuns * kPositions;
constexpr int64_t kSums = kFilters * kChunk;  // of one frequency

/// A block of filters and a chunk of patches, of which whole runs are computed.
struct Products {
  const float* filters = nullptr;  // [frequencies, channels, kFilters]
  const float* patches = nullptr;  // [frequencies, channels, kChunk], `plane` floats a frequency
  int64_t plane = 0;
  int64_t frequencies = 0, channels = 0;  // at least one each
  int64_t rows = kFilters;                // filters that exist
  int64_t runs = kRuns;
  float* sums = nullptr;  // [frequencies, kFilters, kChunk]
};

/// sums[f][o][i] = sum over channels c of filters[f][c][o] * patches[f][c][i].
void multiply(const Products& products);

}  // namespace wide::winograd
