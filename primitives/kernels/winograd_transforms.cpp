#include "primitives/kernels/winograd_transforms.h"

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

}  // namespace

void transform_patches(const float* rows, int64_t pitch, int64_t count, float* to, int64_t plane) {
  const D d;
  for (int64_t i = 0; i < count; i += kAtOnce) {
    V x[4][4];  // row, column of the patches
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const float* row = rows + r * pitch + 2 * i;
      hn::LoadInterleaved2(d, row, x[r][0], x[r][1]);
      hn::LoadInterleaved2(d, row + 2, x[r][2], x[r][3]);
    }
    V down[4][4];  // B^T d
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      down[0][c] = hn::Sub(x[0][c], x[2][c]);
      down[1][c] = hn::Add(x[1][c], x[2][c]);
      down[2][c] = hn::Sub(x[2][c], x[1][c]);
      down[3][c] = hn::Sub(x[1][c], x[3][c]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      float* row = to + 4 * r * plane + i;
      hn::StoreU(hn::Sub(down[r][0], down[r][2]), d, row);
      hn::StoreU(hn::Add(down[r][1], down[r][2]), d, row + plane);
      hn::StoreU(hn::Sub(down[r][2], down[r][1]), d, row + 2 * plane);
      hn::StoreU(hn::Sub(down[r][1], down[r][3]), d, row + 3 * plane);
    }
  }
}

void transform_results(const Tiles& t) {
  const D d;
  const V bias = hn::Set(d, t.bias), zero = hn::Zero(d);
  for (int64_t i = 0; i < t.count; i += kAtOnce) {
    V down[2][4];  // A^T m
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      V f[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) f[r] = hn::LoadU(d, t.sums + (4 * r + c) * t.plane + i);
      down[0][c] = hn::Add(hn::Add(f[0], f[1]), f[2]);
      down[1][c] = hn::Sub(hn::Sub(f[1], f[2]), f[3]);
    }
    const int64_t left = t.columns - 2 * i;
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      if (r == 1 && !t.below) break;
      V even = hn::Add(hn::Add(hn::Add(down[r][0], down[r][1]), down[r][2]), bias);
      V odd = hn::Add(hn::Sub(hn::Sub(down[r][1], down[r][2]), down[r][3]), bias);
      if (t.relu) {
        even = hn::IfThenZeroElse(hn::Lt(even, zero), even);
        odd = hn::IfThenZeroElse(hn::Lt(odd, zero), odd);
      }
      float* out = t.out + r * t.pitch + 2 * i;
      if (left >= 2 * kAtOnce) {
        hn::StoreInterleaved2(even, odd, d, out);
      } else {
        HWY_ALIGN float both[2 * kAtOnce];
        hn::StoreInterleaved2(even, odd, d, both);
        std::memcpy(out, both, static_cast<size_t>(left) * sizeof(float));
      }
    }
  }
}

}  // namespace wide::winograd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::winograd {

HWY_EXPORT(transform_patches);
HWY_EXPORT(transform_results);

void transform_patches(const float* rows, int64_t pitch, int64_t count, float* to, int64_t plane) {
  HWY_DYNAMIC_DISPATCH(transform_patches)(rows, pitch, count, to, plane);
}

void transform_results(const Tiles& tiles) { HWY_DYNAMIC_DISPATCH(transform_results)(tiles); }

}  // namespace wide::winograd
#endif
