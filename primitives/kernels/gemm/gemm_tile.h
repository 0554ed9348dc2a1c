// The innermost part of products of matrices, for kernels under Highway: some rows of a result at
// one panel of columns, whose sums stay in registers. Included after primitives/kernels/highway.h
// and, like it, once for every instruction set.

#if defined(WIDE_GEMM_TILE_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef WIDE_GEMM_TILE_TOGGLE
#undef WIDE_GEMM_TILE_TOGGLE
#else
#define WIDE_GEMM_TILE_TOGGLE
#endif

#include <algorithm>
#include <cstdint>

// Included once for each instruction set.
#include "primitives/kernels/first_read.h"
#include "primitives/kernels/pointwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace wide::gemm_tile::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace vm = wide::vector_math::HWY_NAMESPACE;
using vm::D;
using vm::V;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int kMostVectors = 3;  // of a panel
// The most rows for which the sums, a row of the panel and one element of `a` fit in registers.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM
constexpr int kMostRows = 8;
#else
constexpr int kMostRows = 4;
#endif

/// Spreads columns, in whole vectors, evenly over panels, the wider ones first.
struct Cut {
  int64_t columns, vectors, panels;
  explicit Cut(int64_t all)
      : columns(all),
        vectors((all + kLanes - 1) / kLanes),
        panels((vectors + kMostVectors - 1) / kMostVectors) {}
  int64_t first_vector(int64_t panel) const {
    return vectors / panels * panel + std::min(panel, vectors % panels);
  }
  /// The first column of a panel; for `panels` it is `columns`.
  int64_t first_column(int64_t panel) const {
    return std::min(columns, first_vector(panel) * kLanes);
  }
};

/// Some rows of a product at one panel: bias plus `start` plus the products, added in the order of
/// `inner`.
struct Block {
  const float* a;
  int64_t a_stride;  // between rows, or between columns if they are contiguous
  const float* b;    // rows of the panel, whole vectors
  int64_t b_stride;
  int64_t inner;              // number of the panel's rows
  const float *bias, *start;  // per column, in whole vectors; per row and column
  int64_t start_stride;
  float* out;
  int64_t out_stride;
  int64_t columns;                  // of the result; the panel is padded to whole vectors
  bool relu;                        // keeps NaN, as relu does
  const float* row_bias = nullptr;  // one number for each row, in place of `bias`
};

template <int kRows, int kVectors, bool kByColumns>
HWY_NOINLINE void compute(const Block& b) {
  const D d;
  const int64_t part = b.columns - (kVectors - 1) * kLanes;  // columns in the last vector
  const bool whole = part >= kLanes;
  V sum[kRows][kVectors];
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    const V bias = b.bias != nullptr ? hn::LoadU(d, b.bias + v * kLanes) : hn::Zero(d);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sum[r][v] = b.row_bias != nullptr ? hn::Set(d, b.row_bias[r]) : bias;
      if (b.start == nullptr) continue;
      const float* start = b.start + r * b.start_stride + v * kLanes;
      sum[r][v] =
          hn::Add(sum[r][v], v + 1 < kVectors || whole ? hn::LoadU(d, start)
                                                       : vm::load_some(start, part, hn::Zero(d)));
    }
  }
  const float* row = b.b;
  const float* a[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) a[r] = b.a + r * (kByColumns ? 1 : b.a_stride);
  const float* column = b.a;
  for (int64_t k = 0; k < b.inner; ++k) {
    V w[kVectors];
    // For a single row the panel is read once, perhaps from outside the caches: by first_read.
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v)
      w[v] = kRows == 1 ? first_read::HWY_NAMESPACE::load(row + v * kLanes)
                        : hn::LoadU(d, row + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, kByColumns ? column[r] : a[r][k]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(x, w[v], sum[r][v]);
    }
    row += b.b_stride;
    column += b.a_stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      V y = sum[r][v];
      if (b.relu) y = hn::IfThenZeroElse(hn::Lt(y, hn::Zero(d)), y);
      float* to = b.out + r * b.out_stride + v * kLanes;
      if (v + 1 < kVectors || whole)
        hn::StoreU(y, d, to);
      else
        vm::store_some(y, to, part);
    }
}

template <int kVectors, bool kByColumns, int kRows = kMostRows>
void compute_rows(int64_t rows, const Block& block) {
  if (rows == kRows) return compute<kRows, kVectors, kByColumns>(block);
  if constexpr (kRows > 1) compute_rows<kVectors, kByColumns, kRows - 1>(rows, block);
}

template <bool kByColumns>
void compute_panel(int64_t rows, int64_t vectors, const Block& block) {
  if (vectors == 1) return compute_rows<1, kByColumns>(rows, block);
  if (vectors == 2) return compute_rows<2, kByColumns>(rows, block);
  compute_rows<3, kByColumns>(rows, block);
}

/// Computes up to kMostRows rows at a panel of `vectors`; `by_columns`: `a` has contiguous columns.
inline void compute_block(int64_t rows, int64_t vectors, bool by_columns, const Block& block) {
  if (by_columns) return compute_panel<true>(rows, vectors, block);
  compute_panel<false>(rows, vectors, block);
}

}  // namespace wide::gemm_tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
