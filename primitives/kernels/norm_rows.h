#pragma once
#include <immintrin.h>

#include <cmath>
#include <cstdint>

#include "primitives/kernels/operators.h"

/// Sums and multiply-adds over rows of floats, sixteen lanes at a time: what the normalisations are
/// made of. Statistics are taken in two passes (mean, then squared distances from it), both over
/// rows that are still in the first-level cache. Included by the norm kernels alone.
namespace wide::norm_rows {

#define WIDE_ROWS inline __attribute__((always_inline))

constexpr int64_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(64)));
typedef float Loose __attribute__((vector_size(64), aligned(4), may_alias));

WIDE_ROWS Loose& at(float* p) { return *reinterpret_cast<Loose*>(p); }
WIDE_ROWS const Loose& at(const float* p) { return *reinterpret_cast<const Loose*>(p); }

WIDE_ROWS float total(const Lanes& v) {
  typedef float Half __attribute__((vector_size(32)));
  typedef float Quarter __attribute__((vector_size(16)));
  Half halves[2];
  __builtin_memcpy(halves, &v, sizeof(v));
  const Half h = halves[0] + halves[1];
  Quarter quarters[2];
  __builtin_memcpy(quarters, &h, sizeof(h));
  const Quarter q = quarters[0] + quarters[1];
  return (q[0] + q[2]) + (q[1] + q[3]);
}

/// How a result is written: `relu` keeps NaN; `stream` goes past the caches, to aligned rows only.
template <bool relu, bool stream>
struct Put {
  WIDE_ROWS static void lanes(float* to, const Lanes& value) {
    Lanes v = value;
    if constexpr (relu) v = v < 0.0F ? Lanes{} : v;
    if constexpr (stream) {
      typedef float Quarter __attribute__((vector_size(16)));
      Quarter quarters[4];
      __builtin_memcpy(quarters, &v, sizeof(v));
      for (int k = 0; k < 4; ++k) _mm_stream_ps(to + 4 * k, quarters[k]);
    } else {
      at(to) = v;
    }
  }
  WIDE_ROWS static void one(float* to, float v) { *to = relu && v < 0.0F ? 0.0F : v; }
};

/// `K` rows of `d` side by side, so that their sums do not wait for each other.
/// y = (x - mean) / sqrt(var + eps) * w + b; without the mean when `rms`.
template <int K, bool rms, class Write>
WIDE_ROWS void normalize_rows(const float* x, const float* w, const float* b, float* y, int64_t d,
                              float eps) {
  const float share = 1.0F / static_cast<float>(d);
  const int64_t whole = d / (2 * kLanes) * (2 * kLanes), lanes = d / kLanes * kLanes;
  float mean[K], scale[K];
  for (int k = 0; k < K; ++k) mean[k] = 0;
  if constexpr (!rms) {
    Lanes sum[K][2] = {};
    for (int64_t i = 0; i < whole; i += 2 * kLanes)
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) {
        sum[k][0] += at(x + k * d + i);
        sum[k][1] += at(x + k * d + i + kLanes);
      }
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) {
      float s = total(sum[k][0] + sum[k][1]);
      for (int64_t i = whole; i < d; ++i) s += x[k * d + i];
      mean[k] = s * share;
    }
  }
  Lanes square[K][2] = {};
  for (int64_t i = 0; i < whole; i += 2 * kLanes)
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) {
      const Lanes first = at(x + k * d + i) - mean[k];
      const Lanes second = at(x + k * d + i + kLanes) - mean[k];
      square[k][0] += first * first;
      square[k][1] += second * second;
    }
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k) {
    float s = total(square[k][0] + square[k][1]);
    for (int64_t i = whole; i < d; ++i) s += (x[k * d + i] - mean[k]) * (x[k * d + i] - mean[k]);
    scale[k] = 1.0F / std::sqrt(s * share + eps);
  }
  for (int64_t i = 0; i < lanes; i += kLanes) {
    const Lanes weight = at(w + i), bias = at(b + i);
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k)
      Write::lanes(y + k * d + i, (at(x + k * d + i) - mean[k]) * scale[k] * weight + bias);
  }
  for (int64_t i = lanes; i < d; ++i)
    for (int k = 0; k < K; ++k)
      Write::one(y + k * d + i, (x[k * d + i] - mean[k]) * scale[k] * w[i] + b[i]);
}

WIDE_ROWS float sum_row(const float* x, int64_t n) {
  Lanes sum[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) sum[k] += at(x + i + k * kLanes);
  float s = total((sum[0] + sum[1]) + (sum[2] + sum[3]));
  for (; i < n; ++i) s += x[i];
  return s;
}

WIDE_ROWS float squares_row(const float* x, int64_t n, float mean) {
  Lanes sum[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const Lanes away = at(x + i + k * kLanes) - mean;
      sum[k] += away * away;
    }
  float s = total((sum[0] + sum[1]) + (sum[2] + sum[3]));
  for (; i < n; ++i) s += (x[i] - mean) * (x[i] - mean);
  return s;
}

/// y = (x - mean) * scale + shift.
template <class Write>
WIDE_ROWS void shift_row(const float* x, float* y, int64_t n, float mean, float scale,
                         float shift) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Write::lanes(y + i, (at(x + i) - mean) * scale + shift);
  for (; i < n; ++i) Write::one(y + i, (x[i] - mean) * scale + shift);
}

}  // namespace wide::norm_rows
