#include "primitives/kernels/convolution/convolution_spots.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/convolution/convolution_spots.cpp"
#include "primitives/kernels/highway.h"

#ifndef WIDE_CONVOLUTION_SPOTS_PART
#define WIDE_CONVOLUTION_SPOTS_PART
namespace wide::convolution_spots {

constexpr int kSpots = 8;  // results (output positions) at a time
constexpr int kVectors = 3;
constexpr int kLanes = 16;  // two blocks of filters
using Sums = float[kSpots][kVectors * kLanes];

/// Work on some results for some blocks of filters.
struct Part {
  const Layer& layer;
  const float* image;
  const float* filters;
  int64_t block_floats, blocks;
  const float* bias;  // padded to whole vectors
  const int64_t* offsets;
};

}  // namespace wide::convolution_spots
#endif

HWY_BEFORE_NAMESPACE();
namespace wide::convolution_spots::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, kLanes>;
using H = hn::Half<D>;
using V = hn::Vec<D>;

template <int kCount, int kAcross>
HWY_NOINLINE void compute_part(const Part& p, Sums& out) {
  const D d;
  const H h;
  V sum[kCount][kAcross];
#pragma GCC unroll 3
  for (int v = 0; v < kAcross; ++v) {
    const V bias = hn::LoadU(d, p.bias + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) sum[r][v] = bias;
  }
  // A last odd block is used twice; the second result is not read.
  const int64_t last = p.blocks % 2 == 0 ? p.block_floats : 0;
  for (int64_t k = 0; k < p.layer.tap_count; ++k) {
    const float* x[kCount];
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) x[r] = p.image + p.offsets[r] + p.layer.taps[k].input;
    const float* w[kAcross];
#pragma GCC unroll 3
    for (int v = 0; v < kAcross; ++v)
      w[v] = p.filters + p.layer.taps[k].filters + 2 * v * p.block_floats;
    for (int64_t c = 0, at = 0; c < p.layer.channels; ++c, at += p.layer.channel_pitch) {
      V filters[kAcross];
#pragma GCC unroll 3
      for (int v = 0; v < kAcross; ++v) {
        const int64_t next = v + 1 < kAcross ? p.block_floats : last;
        filters[v] = hn::Combine(d, hn::LoadU(h, w[v] + next), hn::LoadU(h, w[v]));
        w[v] += convolution_tile::kFilters;
      }
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        const V input = hn::Set(d, x[r][at]);
#pragma GCC unroll 3
        for (int v = 0; v < kAcross; ++v) sum[r][v] = hn::MulAdd(input, filters[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kAcross; ++v) {
      V y = sum[r][v];
      if (p.layer.relu) y = hn::IfThenZeroElse(hn::Lt(y, hn::Zero(d)), y);
      hn::StoreU(y, d, out[r] + v * kLanes);
    }
}

template <int kAcross, int kCount = kSpots>
void compute_count(int count, const Part& part, Sums& out) {
  if (count == kCount) return compute_part<kCount, kAcross>(part, out);
  if constexpr (kCount > 1) compute_count<kAcross, kCount - 1>(count, part, out);
}

void compute(int count, const Part& part, Sums& out) {
  if (part.blocks > 4) return compute_count<3>(count, part, out);
  if (part.blocks > 2) return compute_count<2>(count, part, out);
  compute_count<1>(count, part, out);
}

bool exists() { return true; }

#else

void compute(int /*count*/, const Part& /*part*/, Sums& /*out*/) {}
bool exists() { return false; }

#endif

}  // namespace wide::convolution_spots::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::convolution_spots {

HWY_EXPORT(compute);
HWY_EXPORT(exists);

namespace {

using Four = float __attribute__((vector_size(16)));

Four load(const float* from) {
  Four four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

/// Transposes results [position][filter] into a row for each filter.
void turn(const Sums& sums, int count, int64_t filters, int64_t pitch, float* to) {
  int64_t f = 0;
  if (count == kSpots)
    for (; f + 4 <= filters; f += 4)
      for (int r = 0; r < kSpots; r += 4) {
        const Four a = load(sums[r] + f), b = load(sums[r + 1] + f), c = load(sums[r + 2] + f),
                   d = load(sums[r + 3] + f);
        const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                   cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                   ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7),
                   cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        const Four rows[] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5),
                             __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                             __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                             __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
        for (int64_t k = 0; k < 4; ++k)
          std::memcpy(to + (f + k) * pitch + r, &rows[k], sizeof rows[k]);
      }
  for (; f < filters; ++f)
    for (int r = 0; r < count; ++r) to[f * pitch + r] = sums[r][f];
}

}  // namespace

bool worth_it(int64_t results, int64_t filters, int64_t channels, int64_t runs) {
  if (!HWY_DYNAMIC_DISPATCH(exists)()) return false;
  const int64_t vectors = (filters + kLanes - 1) / kLanes;
  const auto along_rows = static_cast<double>(runs * ((filters + 3) / 4 * 4)),
             along_filters = static_cast<double>(results * vectors);
  // Fitted to timings. 1.2: every result loads its inputs from an address of its own. 1.3 / sums:
  // `turn`, whose share is smaller the more products a result has.
  const auto sums = static_cast<double>(channels * std::min<int64_t>(vectors, kVectors));
  return along_filters * (1.2 + 1.3 / sums) < along_rows;
}

void compute(const Layer& layer, const float* image, const float* filters, int64_t block_floats,
             const float* bias, float* out) {
  const auto results = static_cast<int64_t>(layer.offsets.size());
  constexpr int64_t kMost = int64_t{kVectors} * kLanes;
  alignas(64) Sums sums;
  alignas(64) float padded_bias[kMost] = {};
  for (int64_t first = 0; first < layer.filters; first += kMost) {
    const int64_t some = std::min(layer.filters - first, kMost);
    if (bias != nullptr) std::copy_n(bias + first, some, padded_bias);
    const int64_t blocks = (some + convolution_tile::kFilters - 1) / convolution_tile::kFilters;
    for (int64_t at = 0; at < results; at += kSpots) {
      const auto count = static_cast<int>(std::min<int64_t>(results - at, kSpots));
      HWY_DYNAMIC_DISPATCH(compute)
      (count,
       {layer, image, filters + first / convolution_tile::kFilters * block_floats, block_floats,
        blocks, padded_bias, layer.offsets.data() + at},
       sums);
      turn(sums, count, some, results, out + first * results + at);
    }
  }
}

}  // namespace wide::convolution_spots
#endif
