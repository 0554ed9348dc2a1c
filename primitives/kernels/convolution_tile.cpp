#include "primitives/kernels/convolution_tile.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

namespace wide::convolution_tile {

namespace {

using Eight = float __attribute__((vector_size(32)));

#if defined(__x86_64__)

/// Every filter's sums of every run stay in registers over all taps and channels.
template <int runs, bool in_place>
__attribute__((target("avx512f"))) void compute_512(const Tile& t) {
  // Where the results go is fetched while they are summed.
  for (int f = 0; f < t.rows; ++f)
    for (int r = 0; r < runs; ++r) __builtin_prefetch(t.out[r] + f * t.pitch, 1);
  __m512 sum[kFilters][runs];
#pragma GCC unroll 8
  for (int f = 0; f < kFilters; ++f)
#pragma GCC unroll 3
    for (int r = 0; r < runs; ++r) sum[f][r] = _mm512_set1_ps(t.bias[f]);
  for (int64_t k = 0; k < t.tap_count; ++k) {
    const float* filters = t.filters + t.taps[k].filters;
    __mmask16 inside[runs];
    if (in_place) {
      unsigned any = 0;
      for (int r = 0; r < runs; ++r) any |= inside[r] = t.inside[k][static_cast<size_t>(r)];
      if (any == 0) continue;  // all of it outside
    }
    const float* input[runs];
    for (int r = 0; r < runs; ++r) input[r] = t.input[r] + t.taps[k].input;
    for (int64_t c = 0; c < t.channels; ++c) {
      __m512 x[runs];
#pragma GCC unroll 3
      for (int r = 0; r < runs; ++r) {
        x[r] = in_place ? _mm512_maskz_loadu_ps(inside[r], input[r]) : _mm512_loadu_ps(input[r]);
        input[r] += t.channel_pitch;
      }
#pragma GCC unroll 8
      for (int f = 0; f < kFilters; ++f) {
        const __m512 w = _mm512_set1_ps(filters[f]);
#pragma GCC unroll 3
        for (int r = 0; r < runs; ++r) sum[f][r] = _mm512_fmadd_ps(w, x[r], sum[f][r]);
      }
      filters += kFilters;
    }
  }
  if (t.relu) {
    // The second operand is handed on where either is NaN.
#pragma GCC unroll 8
    for (int f = 0; f < kFilters; ++f)
#pragma GCC unroll 3
      for (int r = 0; r < runs; ++r)
        sum[f][r] = _mm512_maskz_max_ps(0xFFFF, _mm512_setzero_ps(), sum[f][r]);
  }
#pragma GCC unroll 8
  for (int f = 0; f < kFilters; ++f)
    if (f < t.rows)
#pragma GCC unroll 3
      for (int r = 0; r < runs; ++r)
        _mm512_mask_storeu_ps(t.out[r] + f * t.pitch,
                              static_cast<__mmask16>((1U << t.count[r]) - 1U), sum[f][r]);
}

#define WIDE_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define WIDE_CLONES
#endif
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")

/// Four filters and sixteen positions at a time fit sixteen registers of eight floats.
WIDE_CLONES void compute_half(const Tile& t, int run, int half) {
  constexpr int kHalf = kFilters / 2;
  Eight low[kHalf], high[kHalf];
#pragma GCC unroll 4
  for (int f = 0; f < kHalf; ++f) low[f] = high[f] = Eight{} + t.bias[half * kHalf + f];
  for (int64_t k = 0; k < t.tap_count; ++k) {
    const float* filters = t.filters + t.taps[k].filters + half * kHalf;
    const float* input = t.input[run] + t.taps[k].input;
    for (int64_t c = 0; c < t.channels; ++c) {
      Eight x, y;
      std::memcpy(&x, input, sizeof x);
      std::memcpy(&y, input + 8, sizeof y);
#pragma GCC unroll 4
      for (int f = 0; f < kHalf; ++f) {
        low[f] += filters[f] * x;
        high[f] += filters[f] * y;
      }
      input += t.channel_pitch;
      filters += kFilters;
    }
  }
  for (int f = 0; f < std::min(kHalf, t.rows - half * kHalf); ++f) {
    float sums[kPositions];
    std::memcpy(sums, &low[f], sizeof low[f]);
    std::memcpy(sums + 8, &high[f], sizeof high[f]);
    float* out = t.out[run] + (half * kHalf + f) * t.pitch;
    for (int i = 0; i < t.count[run]; ++i) out[i] = t.relu && sums[i] < 0.0F ? 0.0F : sums[i];
  }
}

#pragma GCC pop_options

}  // namespace

void compute_portable(const Tile& tile, int runs) {
  for (int run = 0; run < runs; ++run) {
    compute_half(tile, run, 0);
    if (tile.rows > kFilters / 2) compute_half(tile, run, 1);
  }
}

bool reads_inside() {
#if defined(__x86_64__)
  static const bool wide_vectors = __builtin_cpu_supports("avx512f");
  return wide_vectors;
#else
  return false;
#endif
}

void compute(const Tile& tile, int runs) {
#if defined(__x86_64__)
  if (reads_inside()) {
    if (runs == 3)
      tile.inside != nullptr ? compute_512<3, true>(tile) : compute_512<3, false>(tile);
    if (runs == 2)
      tile.inside != nullptr ? compute_512<2, true>(tile) : compute_512<2, false>(tile);
    if (runs == 1)
      tile.inside != nullptr ? compute_512<1, true>(tile) : compute_512<1, false>(tile);
    return;
  }
#endif
  compute_portable(tile, runs);
}

}  // namespace wide::convolution_tile
