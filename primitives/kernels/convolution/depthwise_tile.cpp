#include "primitives/kernels/convolution/depthwise_tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/convolution/depthwise_tile.cpp"
#include "primitives/kernels/highway.h"
// Compiled once for every instruction set, so it must follow highway.h.
#include "primitives/kernels/pointwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace wide::depthwise_tile::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
namespace vm = wide::vector_math::HWY_NAMESPACE;
using vm::D;
using vm::V;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
static_assert(kLanes <= kSpare);
/// Independent accumulators, which hide the latency of a multiply-add.
constexpr int kSums = 4;

HWY_INLINE void put(const Plane& p, V y, int64_t row, int64_t column) {
  if (p.relu) y = hn::IfThenZeroElse(hn::Lt(y, hn::Zero(D())), y);
  float* to = p.out + row * p.out_columns + column;
  if (column + kLanes <= p.out_columns)
    hn::StoreU(y, D(), to);
  else
    vm::store_some(y, to, p.out_columns - column);
}

/// Computes kSums rows of results at one vector of columns, for a filter of kTaps rows with stride
/// and dilation 1. Each row of the image is loaded once and added to every result that it reaches.
template <int kTaps>
HWY_NOINLINE void compute_neighbours(const Plane& p, int64_t row, int64_t column) {
  const D d;
  V sum[kSums];
#pragma GCC unroll 4
  for (int r = 0; r < kSums; ++r) sum[r] = hn::Set(d, p.bias);
  const float* image = p.image + row * p.pitch + column;
  for (int64_t j = 0; j < p.columns; ++j) {
    V w[kTaps];
#pragma GCC unroll 7
    for (int i = 0; i < kTaps; ++i) w[i] = hn::Set(d, p.filter[i * p.columns + j]);
    const float* from = image + p.offsets[j];
#pragma GCC unroll 10
    for (int t = 0; t < kSums + kTaps - 1; ++t, from += p.pitch) {
      const V x = hn::LoadU(d, from);
#pragma GCC unroll 4
      for (int r = 0; r < kSums; ++r)
        if (t - r >= 0 && t - r < kTaps) sum[r] = hn::MulAdd(x, w[t - r], sum[r]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kSums; ++r) put(p, sum[r], row + r, column);
}

/// Computes `count` vectors of results at any positions.
template <int count>
HWY_NOINLINE void compute_any(const Plane& p, const int64_t* rows, const int64_t* columns) {
  const D d;
  V sum[count];
  const float* image[count];
#pragma GCC unroll 4
  for (int r = 0; r < count; ++r) {
    sum[r] = hn::Set(d, p.bias);
    image[r] = p.image + rows[r] * p.row_step * p.pitch + columns[r];
  }
  const float* filter = p.filter;
  for (int64_t j = 0; j < p.columns; ++j) {
    int64_t from = p.offsets[j];
    for (int64_t i = 0; i < p.rows; ++i, from += p.row_dilation * p.pitch) {
      const V w = hn::Set(d, filter[i * p.columns + j]);
#pragma GCC unroll 4
      for (int r = 0; r < count; ++r) sum[r] = hn::MulAdd(hn::LoadU(d, image[r] + from), w, sum[r]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < count; ++r) put(p, sum[r], rows[r], columns[r]);
}

/// Computes rows [begin, out_rows), vector by vector.
void compute_rest(const Plane& p, int64_t begin) {
  int64_t rows[kSums], columns[kSums];
  int some = 0;
  for (int64_t row = begin; row < p.out_rows; ++row)
    for (int64_t column = 0; column < p.out_columns; column += kLanes) {
      rows[some] = row;
      columns[some] = column;
      if (++some < kSums) continue;
      compute_any<kSums>(p, rows, columns);
      some = 0;
    }
  for (int k = 0; k < some; ++k) compute_any<1>(p, rows + k, columns + k);
}

template <int kTaps>
void compute_by_neighbours(const Plane& p) {
  int64_t row = 0;
  for (; row + kSums <= p.out_rows; row += kSums)
    for (int64_t column = 0; column < p.out_columns; column += kLanes)
      compute_neighbours<kTaps>(p, row, column);
  compute_rest(p, row);
}

}  // namespace

// Both ways add the taps in the same order, by columns of the filter.
void compute(const Plane& p) {
  if (p.row_step == 1 && p.row_dilation == 1) {
    if (p.rows == 3) return compute_by_neighbours<3>(p);
    if (p.rows == 5) return compute_by_neighbours<5>(p);
    if (p.rows == 7) return compute_by_neighbours<7>(p);
  }
  compute_rest(p, 0);
}

}  // namespace wide::depthwise_tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::depthwise_tile {

WIDE_DISPATCHED(void, compute, (const Plane& plane), plane)

}  // namespace wide::depthwise_tile
#endif
