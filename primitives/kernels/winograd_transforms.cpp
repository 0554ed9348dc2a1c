#include "primitives/kernels/winograd_transforms.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/winograd_transforms.cpp"
#include "primitives/kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace wide::winograd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kLanes>;
using V = hn::Vec<D>;

constexpr auto kAtOnce = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr auto kNear = static_cast<float>(kPoint), kFar = static_cast<float>(1 / kPoint);

V scaled(float factor, V v) { return hn::Mul(hn::Set(D(), factor), v); }
/// factor * v + w
V plus(float factor, V v, V w) { return hn::MulAdd(hn::Set(D(), factor), v, w); }

// ------------------------------------------------------------------------------ along one axis

/// B^T d
template <int kPatch>
HWY_INLINE void to_frequencies(const V* d, V* y) {
  if constexpr (kPatch == 4) {
    y[0] = hn::Sub(d[0], d[2]);
    y[1] = hn::Add(d[1], d[2]);
    y[2] = hn::Sub(d[2], d[1]);
    y[3] = hn::Sub(d[1], d[3]);
  } else if constexpr (kPatch == 8) {
    y[0] = plus(5.25F, hn::Sub(d[4], d[2]), hn::Sub(d[0], d[6]));
    const auto pair = [&](int at, V even, V odd) HWY_ATTR {
      y[at] = hn::Add(even, odd);
      y[at + 1] = hn::Sub(even, odd);
    };
    pair(1, plus(-4.25F, d[4], hn::Add(d[2], d[6])), plus(-4.25F, d[3], hn::Add(d[1], d[5])));
    pair(3, plus(0.25F, d[2], plus(-1.25F, d[4], d[6])),
         plus(0.5F, d[1], plus(-2.5F, d[3], hn::Add(d[5], d[5]))));
    pair(5, plus(4.0F, d[2], plus(-5.0F, d[4], d[6])),
         plus(2.0F, d[1], plus(-2.5F, d[3], scaled(0.5F, d[5]))));
    y[7] = plus(5.25F, hn::Sub(d[3], d[5]), hn::Sub(d[7], d[1]));
  } else {
    y[0] = plus(-2.5F, d[2], hn::Add(d[0], d[4]));
    const V near_even = plus(-2.0F, d[2], d[4]), near_odd = scaled(kNear, plus(-2.0F, d[1], d[3]));
    y[1] = hn::Add(near_even, near_odd);
    y[2] = hn::Sub(near_even, near_odd);
    const V far_even = plus(-0.5F, d[2], d[4]), far_odd = scaled(kFar, plus(-0.5F, d[1], d[3]));
    y[3] = hn::Add(far_even, far_odd);
    y[4] = hn::Sub(far_even, far_odd);
    y[5] = plus(-2.5F, d[3], hn::Add(d[1], d[5]));
  }
}

/// A^T m
template <int kPatch, int kResults>
HWY_INLINE void to_results(const V* m, V* y) {
  if constexpr (kPatch == 4) {
    y[0] = hn::Add(hn::Add(m[0], m[1]), m[2]);
    y[1] = hn::Sub(hn::Sub(m[1], m[2]), m[3]);
  } else if constexpr (kPatch == 8) {
    const V even = hn::Add(m[1], m[2]), odd = hn::Sub(m[1], m[2]);
    const V far_even = hn::Add(m[3], m[4]), far_odd = hn::Sub(m[3], m[4]);
    const V near_even = hn::Add(m[5], m[6]), near_odd = hn::Sub(m[5], m[6]);
    y[0] = hn::Add(hn::Add(m[0], even), hn::Add(far_even, near_even));
    y[1] = plus(2.0F, far_odd, plus(0.5F, near_odd, odd));
    y[2] = plus(4.0F, far_even, plus(0.25F, near_even, even));
    y[3] = plus(8.0F, far_odd, plus(0.125F, near_odd, hn::Add(odd, m[7])));
  } else {
    const V near_even = hn::Add(m[1], m[2]), near_odd = hn::Sub(m[1], m[2]);
    const V far_even = hn::Add(m[3], m[4]), far_odd = hn::Sub(m[3], m[4]);
    y[0] = hn::Add(m[0], hn::Add(near_even, far_even));
    y[1] = plus(kNear, near_odd, scaled(kFar, far_odd));
    if constexpr (kResults == 4) {
      y[2] = plus(0.5F, near_even, hn::Add(far_even, far_even));
      y[3] = plus(0.5F * kNear, near_odd, scaled(2.0F * kFar, far_odd));
    }
    y[kResults - 1] = hn::Add(y[kResults - 1], m[5]);
  }
}

// ------------------------------------------------------------------------------ along both axes

/// Columns 0 .. kPatch - 1 of patches that begin kStep floats apart.
template <int kPatch, int kStep>
HWY_INLINE void load_columns(const float* row, V* x) {
  const D d;
  if constexpr (kStep == 2) {
#pragma GCC unroll 3
    for (int c = 0; c < kPatch; c += 2) hn::LoadInterleaved2(d, row + c, x[c], x[c + 1]);
  } else {
    V next[4];
    hn::LoadInterleaved4(d, row, x[0], x[1], x[2], x[3]);
    hn::LoadInterleaved4(d, row + 4, next[0], next[1], next[2], next[3]);
#pragma GCC unroll 4
    for (int c = 4; c < kPatch; ++c) x[c] = next[c - 4];
  }
}

template <int kPatch, int kStep>
void transform_patches_of(const float* rows, int64_t pitch, int64_t count, float* to,
                          int64_t plane) {
  const D d;
  for (int64_t i = 0; i < count; i += kAtOnce) {
    V along[kPatch][kPatch];  // column's frequency, row of the patches
#pragma GCC unroll 8
    for (int r = 0; r < kPatch; ++r) {
      V x[kPatch], y[kPatch];
      load_columns<kPatch, kStep>(rows + r * pitch + kStep * i, x);
      to_frequencies<kPatch>(x, y);
#pragma GCC unroll 8
      for (int c = 0; c < kPatch; ++c) along[c][r] = y[c];
    }
#pragma GCC unroll 8
    for (int c = 0; c < kPatch; ++c) {
      V y[kPatch];
      to_frequencies<kPatch>(along[c], y);
#pragma GCC unroll 8
      for (int r = 0; r < kPatch; ++r) hn::StoreU(y[r], d, to + (kPatch * r + c) * plane + i);
    }
  }
}

/// A row of results, as many of them as are there.
template <int kResults>
HWY_INLINE void store_row(const V* y, float* out, int64_t left) {
  const D d;
  const auto store = [&](float* to) HWY_ATTR {
    if constexpr (kResults == 1)
      hn::StoreU(y[0], d, to);
    else if constexpr (kResults == 2)
      hn::StoreInterleaved2(y[0], y[1], d, to);
    else
      hn::StoreInterleaved4(y[0], y[1], y[2], y[3], d, to);
  };
  if (left >= kResults * kAtOnce) return store(out);
  HWY_ALIGN float all[kResults * kAtOnce];
  store(all);
  std::memcpy(out, all, static_cast<size_t>(left) * sizeof(float));
}

HWY_INLINE V greater(V a, V b) { return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a); }

/// Two rows of results, to one of half as many.
template <int kResults>
HWY_INLINE void fold_squares(Squares squares, const V* above, const V* below, V* folded) {
#pragma GCC unroll 2
  for (int c = 0; c < kResults / 2; ++c) {
    const V &a = above[2 * c], &b = above[2 * c + 1], &e = below[2 * c], &f = below[2 * c + 1];
    folded[c] = squares == Squares::greatest ? greater(greater(a, b), greater(e, f))
                                             : scaled(0.25F, hn::Add(hn::Add(a, b), hn::Add(e, f)));
  }
}

template <int kPatch, int kResults>
void transform_results_of(const Tiles& t) {
  const D d;
  const V bias = hn::Set(d, t.bias), zero = hn::Zero(d);
  for (int64_t i = 0; i < t.count; i += kAtOnce) {
    V down[kResults][kPatch];
#pragma GCC unroll 8
    for (int c = 0; c < kPatch; ++c) {
      V m[kPatch], y[kResults];
#pragma GCC unroll 8
      for (int r = 0; r < kPatch; ++r) m[r] = hn::LoadU(d, t.sums + (kPatch * r + c) * t.plane + i);
      to_results<kPatch, kResults>(m, y);
#pragma GCC unroll 4
      for (int r = 0; r < kResults; ++r) down[r][c] = y[r];
    }
    const auto make_row = [&](int r, V* y) HWY_ATTR {
      to_results<kPatch, kResults>(down[r], y);
#pragma GCC unroll 4
      for (int c = 0; c < kResults; ++c) {
        y[c] = hn::Add(y[c], bias);
        if (t.relu) y[c] = hn::IfThenZeroElse(hn::Lt(y[c], zero), y[c]);
      }
    };
    if (t.squares == Squares::kept) {
#pragma GCC unroll 4
      for (int r = 0; r < kResults; ++r) {
        if (r >= t.rows) break;
        V y[kResults];
        make_row(r, y);
        store_row<kResults>(y, t.out + r * t.pitch + kResults * i, t.columns - kResults * i);
      }
      continue;
    }
    constexpr int kHalf = kResults / 2;
#pragma GCC unroll 2
    for (int r = 0; r < kHalf; ++r) {
      if (2 * r + 1 >= t.rows) break;
      V above[kResults], below[kResults], folded[kHalf];
      make_row(2 * r, above);
      make_row(2 * r + 1, below);
      fold_squares<kResults>(t.squares, above, below, folded);
      store_row<kHalf>(folded, t.out + r * t.pitch + kHalf * i, t.columns / 2 - kHalf * i);
    }
  }
}

}  // namespace

void transform_patches(const Basis& basis, const float* rows, int64_t pitch, int64_t count,
                       float* to, int64_t plane) {
  if (basis.patch() == 4) return transform_patches_of<4, 2>(rows, pitch, count, to, plane);
  if (basis.patch() == 8) return transform_patches_of<8, 4>(rows, pitch, count, to, plane);
  if (basis.results == 2) return transform_patches_of<6, 2>(rows, pitch, count, to, plane);
  transform_patches_of<6, 4>(rows, pitch, count, to, plane);
}

void transform_results(const Basis& basis, const Tiles& tiles) {
  if (basis.patch() == 4) return transform_results_of<4, 2>(tiles);
  if (basis.patch() == 8) return transform_results_of<8, 4>(tiles);
  if (basis.results == 2) return transform_results_of<6, 2>(tiles);
  transform_results_of<6, 4>(tiles);
}

}  // namespace wide::winograd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::winograd {

HWY_EXPORT(transform_patches);
HWY_EXPORT(transform_results);

void transform_patches(const Basis& basis, const float* rows, int64_t pitch, int64_t count,
                       float* to, int64_t plane) {
  HWY_DYNAMIC_DISPATCH(transform_patches)(basis, rows, pitch, count, to, plane);
}

void transform_results(const Basis& basis, const Tiles& tiles) {
  HWY_DYNAMIC_DISPATCH(transform_results)(basis, tiles);
}

}  // namespace wide::winograd
#endif
