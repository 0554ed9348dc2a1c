#include "primitives/kernels/convolution/convolution_tile.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/convolution/convolution_tile.cpp"
#include "primitives/kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace wide::convolution_tile::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
#if HWY_TARGET <= HWY_AVX3
constexpr bool kReadsInside = true;
#else
constexpr bool kReadsInside = false;
#endif

/// Computes a part of a tile: some filters at some vectors of every run.
template <int kRows, int kTileRuns, int kVectors, bool kInPlace>
HWY_NOINLINE void compute_part(const Tile& t, int first_row, int first_run, int first_position) {
  const D d;
  V sum[kRows][kTileRuns][kVectors];
#pragma GCC unroll 8
  for (int f = 0; f < kRows; ++f)
#pragma GCC unroll 3
    for (int r = 0; r < kTileRuns; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[f][r][v] = hn::Set(d, t.bias[first_row + f]);
  for (int64_t k = 0; k < t.tap_count; ++k) {
    const float* filters = t.filters + t.taps[k].filters + first_row;
    [[maybe_unused]] hn::Mask<D> inside[kTileRuns];
    if constexpr (kInPlace) {
      unsigned any = 0;
      for (int r = 0; r < kTileRuns; ++r) {
        uint8_t bits[8] = {};  // LoadMaskBits may read 8 bytes
        const uint16_t run = t.inside[k][static_cast<size_t>(r)];
        std::memcpy(bits, &run, sizeof run);
        inside[r] = hn::LoadMaskBits(d, bits);
        any |= run;
      }
      if (any == 0) continue;  // all positions lie outside
    }
    const float* input[kTileRuns];
    for (int r = 0; r < kTileRuns; ++r)
      input[r] = t.input[first_run + r] + t.taps[k].input + first_position;
    for (int64_t c = 0; c < t.channels; ++c) {
      V x[kTileRuns][kVectors];
#pragma GCC unroll 3
      for (int r = 0; r < kTileRuns; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          if constexpr (kInPlace)
            x[r][v] = hn::MaskedLoad(inside[r], d, input[r]);
          else
            x[r][v] = hn::LoadU(d, input[r] + v * kLanes);
        }
        input[r] += t.channel_pitch;
      }
#pragma GCC unroll 8
      for (int f = 0; f < kRows; ++f) {
        const V w = hn::Set(d, filters[f]);
#pragma GCC unroll 3
        for (int r = 0; r < kTileRuns; ++r)
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v) sum[f][r][v] = hn::MulAdd(w, x[r][v], sum[f][r][v]);
      }
      filters += kFilters;
    }
  }
#pragma GCC unroll 8
  for (int f = 0; f < kRows; ++f)
    if (first_row + f < t.rows)
#pragma GCC unroll 3
      for (int r = 0; r < kTileRuns; ++r)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          V y = sum[f][r][v];
          if (t.relu) y = hn::IfThenZeroElse(hn::Lt(y, hn::Zero(d)), y);
          const int position = first_position + v * kLanes;
          const int there = std::min(t.count[first_run + r] - position, kLanes);
          float* to = t.out[first_run + r] + (first_row + f) * t.pitch + position;
#if HWY_TARGET <= HWY_AVX3
          hn::BlendedStore(y, hn::FirstN(d, static_cast<size_t>(there)), d, to);
#else
          if (there == kLanes) {
            hn::StoreU(y, d, to);
          } else if (kLanes > 1 && there > 0) {
            HWY_ALIGN float all[kLanes];
            hn::Store(y, d, all);
            std::memcpy(to, all, static_cast<size_t>(there) * sizeof(float));
          }
#endif
        }
}

#if HWY_TARGET <= HWY_AVX3

/// Keeps all sums (filters times runs) in registers over all taps and channels.
template <int kRows, int kTileRuns>
void compute_rows(const Tile& t) {
  if (t.inside != nullptr)
    compute_part<kRows, kTileRuns, 1, true>(t, 0, 0, 0);
  else
    compute_part<kRows, kTileRuns, 1, false>(t, 0, 0, 0);
}

template <int kTileRuns>
void compute_runs(const Tile& t) {
  // Prefetches the results' memory while sums are computed.
  for (int f = 0; f < t.rows; ++f)
    for (int r = 0; r < kTileRuns; ++r) __builtin_prefetch(t.out[r] + f * t.pitch, 1);
  if (t.rows <= kFilters / 2)
    compute_rows<kFilters / 2, kTileRuns>(t);
  else
    compute_rows<kFilters, kTileRuns>(t);
}

}  // namespace

void compute(const Tile& tile, int runs) {
  if (runs == 3) return compute_runs<3>(tile);
  if (runs == 2) return compute_runs<2>(tile);
  compute_runs<1>(tile);
}

#else

}  // namespace

/// Half the filters and two vectors of a run at a time, so that sums fit sixteen registers.
void compute(const Tile& tile, int runs) {
  constexpr int kHalf = kFilters / 2;
  for (int run = 0; run < runs; ++run)
    for (int row = 0; row < tile.rows; row += kHalf)
      for (int position = 0; position < tile.count[run]; position += 2 * kLanes)
        compute_part<kHalf, 1, 2, false>(tile, row, run, position);
}

#endif

bool reads_inside() { return kReadsInside; }

}  // namespace wide::convolution_tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::convolution_tile {

WIDE_DISPATCHED(bool, reads_inside, ())
WIDE_DISPATCHED(void, compute, (const Tile& tile, int runs), tile, runs)

}  // namespace wide::convolution_tile
#endif
