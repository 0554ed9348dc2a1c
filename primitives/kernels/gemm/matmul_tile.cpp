#include "primitives/kernels/gemm/matmul_tile.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/gemm/matmul_tile.cpp"
#include "primitives/kernels/highway.h"
// Included once for each instruction set.
#include "primitives/kernels/gemm/gemm_tile.h"

HWY_BEFORE_NAMESPACE();
namespace wide::matmul_tile::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
namespace vm = wide::vector_math::HWY_NAMESPACE;
namespace tile = wide::gemm_tile::HWY_NAMESPACE;
using tile::Cut;
using tile::D;
using tile::kLanes;
using tile::kMostRows;

/// Rows of a panel that stay in the first-level cache while the rows of `a` pass over them.
constexpr int64_t kInnerBlock = 256;
constexpr int64_t kMostColumns = tile::kMostVectors * kLanes;
/// Rows of `b` this many floats apart compete for the same cache sets.
constexpr int64_t kFarApart = 512;

/// Copies four contiguous columns of `b` to four columns of the panel.
void turn_four(const float* from, int64_t column_stride, int64_t inner, float* to, int64_t width) {
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto low = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  const auto high = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  for (; k + 4 <= inner; k += 4, to += 4 * width) {
    const auto a = hn::LoadU(d, from + k), b = hn::LoadU(d, from + k + column_stride);
    const auto c = hn::LoadU(d, from + k + 2 * column_stride);
    const auto e = hn::LoadU(d, from + k + 3 * column_stride);
    const auto ab = hn::InterleaveLower(d, a, b), ce = hn::InterleaveLower(d, c, e);
    const auto ab2 = hn::InterleaveUpper(d, a, b), ce2 = hn::InterleaveUpper(d, c, e);
    hn::StoreU(low(ab, ce), d, to);
    hn::StoreU(high(ab, ce), d, to + width);
    hn::StoreU(low(ab2, ce2), d, to + 2 * width);
    hn::StoreU(high(ab2, ce2), d, to + 3 * width);
  }
#endif
  for (; k < inner; ++k, to += width)
    for (int64_t j = 0; j < 4; ++j) to[j] = from[k + j * column_stride];
}

/// Copies rows of `b` to a panel of whole vectors, padded with zeros.
void lay_out(const Matrix& b, int64_t inner, int64_t there, int64_t width, float* to) {
  if (b.row_stride == 1 && b.column_stride != 1) {
    int64_t j = 0;
    for (; j + 4 <= there; j += 4)
      turn_four(b.data + j * b.column_stride, b.column_stride, inner, to + j, width);
    for (; j < width; ++j)
      for (int64_t k = 0; k < inner; ++k)
        to[k * width + j] = j < there ? b.data[k + j * b.column_stride] : 0.0F;
    return;
  }
  const D d;
  for (int64_t k = 0; k < inner; ++k, to += width) {
    const float* row = b.data + k * b.row_stride;
    if (b.column_stride != 1) {
      for (int64_t j = 0; j < width; ++j) to[j] = j < there ? row[j * b.column_stride] : 0.0F;
      continue;
    }
    for (int64_t j = 0; j < width; j += kLanes)
      hn::StoreU(j + kLanes <= there ? hn::LoadU(d, row + j)
                                     : vm::load_some(row + j, there - j, hn::Zero(d)),
                 d, to + j);
  }
}

/// A thread's panel, aligned to a cache line.
float* scratch() {
  thread_local const std::unique_ptr<void, decltype(&std::free)> panel(
      std::aligned_alloc(64, sizeof(float) * kInnerBlock * kMostColumns), std::free);
  if (panel == nullptr) throw std::bad_alloc();
  return static_cast<float*>(panel.get());
}

}  // namespace

int64_t panel_count(int64_t columns) { return Cut(columns).panels; }

int64_t first_column(int64_t columns, int64_t panel) { return Cut(columns).first_column(panel); }

void multiply(const Product& p, int64_t begin, int64_t end) {
  const Cut cut(p.columns);
  const bool by_columns = p.a.column_stride != 1;
  const int64_t blocks = (p.rows + kMostRows - 1) / kMostRows;
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t from = cut.first_vector(panel), vectors = cut.first_vector(panel + 1) - from;
    const int64_t column = from * kLanes, width = vectors * kLanes;
    const int64_t there = std::min(width, p.columns - column);
    HWY_ALIGN float bias[kMostColumns] = {};
    if (p.bias != nullptr)
      for (int64_t j = 0; j < there; ++j) bias[j] = p.bias[(column + j) * p.bias_stride];
    const bool in_place =
        p.b.column_stride == 1 && there == width && (p.b.row_stride < kFarApart || blocks == 1);
    int64_t k = 0;
    do {
      const int64_t count = std::min(kInnerBlock, p.inner - k);
      const Matrix b{p.b.data + k * p.b.row_stride + column * p.b.column_stride, p.b.row_stride,
                     p.b.column_stride};
      if (!in_place) lay_out(b, count, there, width, scratch());
      const float* a = p.a.data + k * p.a.column_stride;
      for (int64_t i = 0, row = 0; i < blocks; ++i) {
        const int64_t rows = p.rows / blocks + (i < p.rows % blocks ? 1 : 0);
        float* out = p.out + row * p.out_stride + column;
        const tile::Block block{a + row * p.a.row_stride,
                                by_columns ? p.a.column_stride : p.a.row_stride,
                                in_place ? b.data : scratch(),
                                in_place ? b.row_stride : width,
                                count,
                                k == 0 ? bias : nullptr,
                                k == 0 ? nullptr : out,
                                p.out_stride,
                                out,
                                p.out_stride,
                                there,
                                p.relu && k + count == p.inner,
                                p.row_bias != nullptr && k == 0 ? p.row_bias + row : nullptr};
        tile::compute_block(rows, vectors, by_columns, block);
        row += rows;
      }
      k += count;
    } while (k < p.inner);
  }
}

}  // namespace wide::matmul_tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::matmul_tile {

WIDE_DISPATCHED(int64_t, panel_count, (int64_t columns), columns)
WIDE_DISPATCHED(int64_t, first_column, (int64_t columns, int64_t panel), columns, panel)
WIDE_DISPATCHED(void, multiply, (const Product& product, int64_t begin, int64_t end), product,
                begin, end)

}  // namespace wide::matmul_tile
#endif
