#include "primitives/kernels/convolution/winograd_products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/convolution/winograd_products.cpp"
#include "primitives/kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace wide::winograd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kPositions>;
using V = hn::Vec<D>;

constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

/// Computes some filters at some vectors of every frequency, with sums in registers.
template <int kRows, int kVectors>
HWY_NOINLINE void multiply_part(const Products& p, int64_t row, int64_t position) {
  const D d;
  const float *filters = p.filters + row, *patches = p.patches + position;
  float* sums = p.sums + row * kChunk + position;
  for (int64_t f = 0; f < p.frequencies; ++f) {
    V sum[kRows][kVectors];
    const float* x = patches;
    const auto add = [&](bool first) HWY_ATTR {
      V at[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) at[v] = hn::LoadU(d, x + v * kLanes);
#pragma GCC unroll 8
      for (int o = 0; o < kRows; ++o) {
        const V w = hn::Set(d, filters[o]);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v)
          sum[o][v] = first ? hn::Mul(w, at[v]) : hn::MulAdd(w, at[v], sum[o][v]);
      }
      filters += kFilters;
      x += kChunk;
    };
    add(true);
    for (int64_t c = 1; c < p.channels; ++c) add(false);
#pragma GCC unroll 8
    for (int o = 0; o < kRows; ++o)
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[o][v], d, sums + o * kChunk + v * kLanes);
    patches += p.plane;
    sums += kSums;
  }
}

}  // namespace

#if HWY_TARGET <= HWY_AVX3

void multiply(const Products& p) {
  constexpr int kHalf = kFilters / 2;
  const bool few = p.rows <= kHalf;
  if (p.runs == 3) return few ? multiply_part<kHalf, 3>(p, 0, 0) : multiply_part<8, 3>(p, 0, 0);
  if (p.runs == 2) return few ? multiply_part<kHalf, 2>(p, 0, 0) : multiply_part<8, 2>(p, 0, 0);
  few ? multiply_part<kHalf, 1>(p, 0, 0) : multiply_part<8, 1>(p, 0, 0);
}

#else

/// Half the filters and two vectors at a time, so that sums fit sixteen registers.
void multiply(const Products& p) {
  constexpr int kHalf = kFilters / 2;
  for (int64_t row = 0; row < p.rows; row += kHalf)
    for (int64_t at = 0; at < p.runs * kPositions; at += 2 * kLanes)
      multiply_part<kHalf, 2>(p, row, at);
}

#endif

}  // namespace wide::winograd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::winograd {

WIDE_DISPATCHED(void, multiply, (const Products& products), products)

}  // namespace wide::winograd
#endif
