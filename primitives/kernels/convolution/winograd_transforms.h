#pragma once
#include <cstdint>

/// The two transforms of Winograd's convolutions, for patches and tiles side by side.
namespace wide::winograd {

/// F(results x results, kernel x kernel): tiles of results from patches of inputs, by polynomials
/// at 0, 1, -1 and infinity (patches of 4), 0, +-1/sqrt(2), +-sqrt(2) and infinity (patches of 6:
/// rounding errors are a third of those at 0, +-1, +-2; see Barabasz et al., "Error Analysis and
/// Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020) or 0, +-1, +-2,
/// +-1/2 and infinity (patches of 8).
struct Basis {
  int64_t kernel = 3, results = 2;

  int64_t patch() const { return kernel + results - 1; }
  int64_t frequencies() const { return patch() * patch(); }
  /// Whether there are transforms for it: F(2, 3), F(4, 3), F(2, 5) and F(4, 5).
  bool exists() const { return (kernel == 3 || kernel == 5) && (results == 2 || results == 4); }
};

constexpr int64_t kMostResults = 4;  // of a basis

constexpr double kPoint = 0.70710678118654752;  // and its inverse: points for patches of 6

constexpr int64_t kLanes = 8;  // patches or tiles at a time, at most

/// Patches of rows `pitch` floats apart, patch i at rows + starts[i]: d becomes B^T d B. Frequency
/// f of patch i goes to to[f * plane + i]. Up to kLanes - 1 patches past the last are read (their
/// starts must exist) and written; columns are read by four.
void transform_patches(const Basis& basis, const float* rows, int64_t pitch, const int64_t* starts,
                       int64_t count, float* to, int64_t plane);

/// Pooling of 2 x 2 squares of results, none of which is cut off; a NaN makes the greatest NaN.
enum class Squares { kept, greatest, mean };

/// Where the results of neighbouring tiles of a row are stored.
struct Strip {
  int64_t first = 0, count = 0;  // first tile, number of tiles
  int64_t to = 0;                // index of the first value stored
  int64_t pitch = 0;             // distance of stored rows
  int64_t columns = 0;           // results in a row, at most basis.results for each tile
  int64_t rows = 0;              // rows of results, at most basis.results
};

/// Tiles, in strips one after the other.
struct Tiles {
  const float* sums = nullptr;  // frequency f of tile i is sums[f * plane + i]
  int64_t plane = 0;
  int64_t count = 0;
  float bias = 0;
  bool relu = false;  // keeps NaN, as relu does
  Squares squares = Squares::kept;
  float* out = nullptr;
  const Strip* strips = nullptr;
};

/// Transforms frequencies to results: m becomes A^T m A.
void transform_results(const Basis& basis, const Tiles& tiles);

}  // namespace wide::winograd
