#pragma once
#include <cstdint>

/// The two changes of basis of F(2x2, 3x3), for patches and tiles that lie side by side.
namespace wide::winograd {

constexpr int64_t kFrequencies = 16;
constexpr int64_t kLanes = 8;  // so many patches or tiles at a time, at most

/// Patches of 4 x 4, the first at `rows`, each two columns from the one before: d to B^T d B.
/// Frequency f of patch i goes to to[f * plane + i]; kLanes - 1 patches past the last are read and
/// written too.
void transform_patches(const float* rows, int64_t pitch, int64_t count, float* to, int64_t plane);

/// Tiles of 2 x 2 in a row of tiles.
struct Tiles {
  const float* sums = nullptr;  // frequency f of tile i is sums[f * plane + i]
  int64_t plane = 0;
  int64_t count = 0;
  float bias = 0;
  bool relu = false;  // keeps NaN, as relu does
  float* out = nullptr;
  int64_t pitch = 0;    // from the upper row of results to the lower
  int64_t columns = 0;  // results in a row, at most two for each tile
  bool below = true;    // there is a lower row
};

/// Their results from the frequencies: m to A^T m A.
void transform_results(const Tiles& tiles);

}  // namespace wide::winograd
