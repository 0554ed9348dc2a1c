// Products with a matrix of a few columns, for kernels under Highway: vectors lie along the summed
// dimension, as panels of so few columns would be mostly zeros. Included after
// primitives/kernels/highway.h and, like it, once for every instruction set.

#if defined(WIDE_GEMM_NARROW_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef WIDE_GEMM_NARROW_TOGGLE
#undef WIDE_GEMM_NARROW_TOGGLE
#else
#define WIDE_GEMM_NARROW_TOGGLE
#endif

#include <algorithm>
#include <cstdint>

// Included once for each instruction set.
#include "primitives/kernels/pointwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace wide::gemm_narrow::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace vm = wide::vector_math::HWY_NAMESPACE;
using vm::D;
using vm::V;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int64_t kMostColumns = 8;

/// Whether summing lanes, about ten instructions each, costs less than a panel's empty columns.
inline bool applies(int64_t inner, int64_t columns) {
  return columns <= std::min(kMostColumns, kLanes / 2) &&
         columns * (inner + 10 * kLanes) < inner * kLanes;
}

/// `rows` of a product: bias plus residual plus the sum.
struct Rows {
  const float* a;  // [rows, inner]
  int64_t a_stride, a_step;
  int64_t rows, inner, columns;
  const float *b, *bias;  // columns of `inner` contiguous numbers; one per column
  const float* start;     // a residual, or null
  int64_t start_stride;
  float* out;
  int64_t out_stride;
  bool relu;  // keeps NaN, as relu does
};

inline void put(const Rows& p, int64_t row, int64_t column, float sum) {
  float y = p.bias[column];
  if (p.start != nullptr) y += p.start[row * p.start_stride + column];
  y += sum;
  p.out[row * p.out_stride + column] = p.relu && y < 0 ? 0.0F : y;
}

/// Computes a block of results, each as one sum of vectors.
template <int kRows, int kColumns>
HWY_NOINLINE void compute(const Rows& p, int64_t row, int64_t column) {
  const D d;
  const float *a[kRows], *b[kColumns];
  V sum[kRows][kColumns];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) a[r] = p.a + (row + r) * p.a_stride;
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) b[c] = p.b + (column + c) * p.inner;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::Zero(d);
  const auto step = [&](const auto& load) HWY_ATTR {
    V w[kColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) w[c] = load(b[c]);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V x = load(a[r]);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::MulAdd(x, w[c], sum[r][c]);
    }
  };
  int64_t k = 0;
  for (; k + kLanes <= p.inner; k += kLanes)
    step([&](const float* from) HWY_ATTR { return hn::LoadU(d, from + k); });
  if (k < p.inner)
    step([&](const float* from)
             HWY_ATTR { return vm::load_some(from + k, p.inner - k, hn::Zero(d)); });
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c)
      put(p, row + r, column + c, hn::GetLane(hn::SumOfLanes(d, sum[r][c])));
}

template <int kColumns>
void compute_columns(const Rows& p, int64_t column) {
  constexpr int kRows = kColumns == 1 ? 8 : 4;
  int64_t row = 0;
  for (; row + kRows <= p.rows; row += kRows) compute<kRows, kColumns>(p, row, column);
  for (; row < p.rows; ++row) compute<1, kColumns>(p, row, column);
}

/// For an `a` with contiguous columns: vectors lie along its rows.
inline void compute_by_columns(const Rows& p) {
  const D d;
  for (int64_t row = 0; row < p.rows; row += kLanes) {
    const int64_t there = std::min(kLanes, p.rows - row);
    for (int64_t column = 0; column < p.columns; ++column) {
      const float *a = p.a + row, *b = p.b + column * p.inner;
      V sum = hn::Zero(d);
      for (int64_t k = 0; k < p.inner; ++k, a += p.a_step)
        sum = hn::MulAdd(there == kLanes ? hn::LoadU(d, a) : vm::load_some(a, there, hn::Zero(d)),
                         hn::Set(d, b[k]), sum);
      HWY_ALIGN float sums[kLanes];
      hn::Store(sum, d, sums);
      for (int64_t r = 0; r < there; ++r) put(p, row + r, column, sums[r]);
    }
  }
}

inline void multiply(const Rows& p) {
  if (p.a_step != 1) return compute_by_columns(p);
  for (int64_t column = 0; column < p.columns; column += 4) {
    const int64_t left = p.columns - column;
    if (left >= 4) {
      compute_columns<4>(p, column);
    } else if (left == 3) {
      compute_columns<3>(p, column);
    } else if (left == 2) {
      compute_columns<2>(p, column);
    } else {
      compute_columns<1>(p, column);
    }
  }
}

}  // namespace wide::gemm_narrow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
