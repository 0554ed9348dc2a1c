#include "primitives/kernels/convolution/winograd_transforms.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/convolution/winograd_transforms.cpp"
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
V plus(float factor, V v, V w) { return hn::MulAdd(hn::Set(D(), factor), v, w); }

// ------------------------------------------------------------------------------ along one axis

/// Patch to frequencies along one axis: B^T d.
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

/// Frequencies to results along one axis: A^T m.
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

/// Loads four columns of as many patches as there are lanes; each 128-bit block is one patch's.
template <class DV>
HWY_INLINE void load_four(DV d, const float* row, const int64_t* starts, hn::Vec<DV>* x) {
#if HWY_TARGET == HWY_SCALAR
  for (int c = 0; c < 4; ++c) x[c] = hn::LoadU(d, row + starts[0] + c);
#else
  const hn::CappedTag<float, 4> block;
  const hn::RepartitionToWide<DV> wide;
  hn::Vec<DV> a[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const auto low = hn::LoadU(block, row + starts[k]);
    if constexpr (hn::MaxLanes(DV()) == 8)
      a[k] = hn::Combine(d, hn::LoadU(block, row + starts[k + 4]), low);
    else
      a[k] = low;
  }
  const auto pairs = [&](auto v) HWY_ATTR { return hn::BitCast(wide, v); };
  const auto low01 = pairs(hn::InterleaveLower(d, a[0], a[1]));
  const auto low23 = pairs(hn::InterleaveLower(d, a[2], a[3]));
  const auto high01 = pairs(hn::InterleaveUpper(d, a[0], a[1]));
  const auto high23 = pairs(hn::InterleaveUpper(d, a[2], a[3]));
  x[0] = hn::BitCast(d, hn::InterleaveLower(wide, low01, low23));
  x[1] = hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23));
  x[2] = hn::BitCast(d, hn::InterleaveLower(wide, high01, high23));
  x[3] = hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23));
#endif
}

template <int kPatch>
void transform_patches_of(const float* rows, int64_t pitch, const int64_t* starts, int64_t count,
                          float* to, int64_t plane) {
  const D d;
  for (int64_t i = 0; i < count; i += kAtOnce) {
    V along[kPatch][kPatch];  // [column's frequency][row of the patches]
#pragma GCC unroll 8
    for (int r = 0; r < kPatch; ++r) {
      V x[8], y[kPatch];
      load_four(d, rows + r * pitch, starts + i, x);
      if constexpr (kPatch > 4) load_four(d, rows + r * pitch + 4, starts + i, x + 4);
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

/// Stores rows of results, in which tiles lie side by side, to their strips, without results beyond
/// the edges. `strip` is the first tile's strip and is advanced to the next tile's.
template <int kColumns>
HWY_INLINE void store_rows(const float (*made)[kColumns * kAtOnce], const Tiles& t, int64_t first,
                           const Strip*& strip) {
  const int64_t fold = t.squares == Squares::kept ? 1 : 2;
  const int64_t end = std::min(first + kAtOnce, t.count);
  for (int64_t tile = first; tile < end;) {
    const int64_t before = tile - strip->first;
    const int64_t tiles = std::min(end - tile, strip->count - before);
    const int64_t floats = std::min(kColumns * tiles, strip->columns / fold - kColumns * before);
    float* to = t.out + strip->to + kColumns * before;
    const int64_t from = kColumns * (tile - first);
    for (int64_t r = 0; r < strip->rows / fold; ++r, to += strip->pitch) {
      int64_t k = 0;
      if constexpr (kColumns * kAtOnce >= 4)
        for (; k + 4 <= floats; k += 4) std::memcpy(to + k, made[r] + from + k, 4 * sizeof(float));
      for (; k < floats; ++k) to[k] = made[r][from + k];
    }
    tile += tiles;
    if (before + tiles == strip->count) ++strip;
  }
}

/// Interleaves a row of results, so that tiles lie side by side.
template <int kColumns>
HWY_INLINE void interleave(const V* y, float* to) {
  const D d;
  if constexpr (kColumns == 1)
    hn::StoreU(y[0], d, to);
  else if constexpr (kColumns == 2)
    hn::StoreInterleaved2(y[0], y[1], d, to);
  else
    hn::StoreInterleaved4(y[0], y[1], y[2], y[3], d, to);
}

HWY_INLINE V greater(V a, V b) { return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a); }

/// Pools two rows of results to one of half the length.
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
  const Strip* strip = t.strips;
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
      HWY_ALIGN float made[kResults][kResults * kAtOnce];
#pragma GCC unroll 4
      for (int r = 0; r < kResults; ++r) {
        V y[kResults];
        make_row(r, y);
        interleave<kResults>(y, made[r]);
      }
      store_rows<kResults>(made, t, i, strip);
      continue;
    }
    constexpr int kHalf = kResults / 2;
    HWY_ALIGN float made[kHalf][kHalf * kAtOnce];
#pragma GCC unroll 2
    for (int r = 0; r < kHalf; ++r) {
      V above[kResults], below[kResults], folded[kHalf];
      make_row(2 * r, above);
      make_row(2 * r + 1, below);
      fold_squares<kResults>(t.squares, above, below, folded);
      interleave<kHalf>(folded, made[r]);
    }
    store_rows<kHalf>(made, t, i, strip);
  }
}

}  // namespace

void transform_patches(const Basis& basis, const float* rows, int64_t pitch, const int64_t* starts,
                       int64_t count, float* to, int64_t plane) {
  if (basis.patch() == 4) return transform_patches_of<4>(rows, pitch, starts, count, to, plane);
  if (basis.patch() == 6) return transform_patches_of<6>(rows, pitch, starts, count, to, plane);
  transform_patches_of<8>(rows, pitch, starts, count, to, plane);
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

WIDE_DISPATCHED(void, transform_patches,
                (const Basis& basis, const float* rows, int64_t pitch, const int64_t* starts,
                 int64_t count, float* to, int64_t plane),
                basis, rows, pitch, starts, count, to, plane)
WIDE_DISPATCHED(void, transform_results, (const Basis& basis, const Tiles& tiles), basis, tiles)

}  // namespace wide::winograd
#endif
