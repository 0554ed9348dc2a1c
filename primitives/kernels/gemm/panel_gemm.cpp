#include "primitives/kernels/gemm/panel_gemm.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/gemm/panel_gemm.cpp"
#include "primitives/kernels/highway.h"
// Included once for each instruction set.
#include "primitives/kernels/gemm/gemm_narrow.h"
#include "primitives/kernels/gemm/gemm_tile.h"

HWY_BEFORE_NAMESPACE();
namespace wide::panel_gemm::HWY_NAMESPACE {
namespace {

namespace narrow = wide::gemm_narrow::HWY_NAMESPACE;
namespace tile = wide::gemm_tile::HWY_NAMESPACE;
using tile::Cut;
using tile::kLanes;
using tile::kMostRows;

/// Rows of a panel that stay in the second-level cache while blocks of rows of `a` pass over them.
constexpr int64_t kInnerBlock = 512;

/// Packs a few columns: the bias in the space of one vector, then column after column.
void pack_narrow(const Matrix& m, float* to) {
  std::fill_n(to, kLanes, 0.0F);
  if (m.bias != nullptr)
    for (int64_t j = 0; j < m.columns; ++j) to[j] = m.bias[j * m.bias_stride];
  to += kLanes;
  for (int64_t j = 0; j < m.columns; ++j, to += m.inner)
    for (int64_t k = 0; k < m.inner; ++k) to[k] = m.data[k * m.row_stride + j * m.column_stride];
}

}  // namespace

int64_t packed_floats(int64_t inner, int64_t columns) {
  return (inner + 1) * Cut(columns).vectors * kLanes;
}

int64_t panel_count(int64_t columns) { return Cut(columns).panels; }

int64_t first_column(int64_t columns, int64_t panel) { return Cut(columns).first_column(panel); }

void pack(const Matrix& m, float* panels) {
  if (narrow::applies(m.inner, m.columns)) return pack_narrow(m, panels);
  const Cut cut(m.columns);
  for (int64_t p = 0; p < cut.panels; ++p) {
    const int64_t begin = cut.first_vector(p) * kLanes, end = cut.first_vector(p + 1) * kLanes;
    const int64_t width = end - begin, there = std::min(end, m.columns) - begin;
    float* to = panels + begin * (m.inner + 1);
    std::fill(to, to + width, 0.0F);
    if (m.bias != nullptr)
      for (int64_t j = 0; j < there; ++j) to[j] = m.bias[(begin + j) * m.bias_stride];
    to += width;
    if (m.column_stride == 1) {
      for (int64_t k = 0; k < m.inner; ++k, to += width) {
        std::memcpy(to, m.data + k * m.row_stride + begin,
                    static_cast<size_t>(there) * sizeof(float));
        std::fill(to + there, to + width, 0.0F);
      }
      continue;
    }
    // Contiguous columns are read a cache line at a time and written four side by side.
    constexpr int64_t kLine = 16;
    for (int64_t k = 0; k < m.inner; k += kLine) {
      const int64_t past = std::min(k + kLine, m.inner);
      int64_t j = 0;
      for (; j + 4 <= there; j += 4) {
        const float* from = m.data + (begin + j) * m.column_stride;
        for (int64_t i = k; i < past; ++i) {
          const float* row = from + i * m.row_stride;
          const float four[4] = {row[0], row[m.column_stride], row[2 * m.column_stride],
                                 row[3 * m.column_stride]};
          std::memcpy(to + i * width + j, four, sizeof four);
        }
      }
      for (; j < width; ++j)
        for (int64_t i = k; i < past; ++i)
          to[i * width + j] =
              j < there ? m.data[i * m.row_stride + (begin + j) * m.column_stride] : 0.0F;
    }
  }
}

void multiply(const Product& p, int64_t begin, int64_t end) {
  if (narrow::applies(p.inner, p.columns)) {
    if (begin == end) return;
    return narrow::multiply({p.a, p.a_stride, p.a_step, p.rows, p.inner, p.columns,
                             p.panels + kLanes, p.panels, p.residual, p.residual_stride, p.out,
                             p.out_stride, p.relu});
  }
  const Cut cut(p.columns);
  const bool by_columns = p.a_step != 1;
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t from = cut.first_vector(panel), vectors = cut.first_vector(panel + 1) - from;
    const int64_t column = from * kLanes, width = vectors * kLanes;
    const float* rows_of_panel = p.panels + column * (p.inner + 1);
    const int64_t blocks = (p.rows + kMostRows - 1) / kMostRows;
    const int64_t inner_block = blocks == 1 ? p.inner : kInnerBlock;
    int64_t k = 0;
    do {
      const int64_t count = std::min(inner_block, p.inner - k);
      const bool first = k == 0, last = k + count == p.inner;
      const float* start = first ? p.residual : p.out;
      const int64_t start_stride = first ? p.residual_stride : p.out_stride;
      for (int64_t i = 0, row = 0; i < blocks; ++i) {
        const int64_t rows = p.rows / blocks + (i < p.rows % blocks ? 1 : 0);
        const tile::Block block{p.a + row * p.a_stride + k * p.a_step,
                                by_columns ? p.a_step : p.a_stride,
                                rows_of_panel + (k + 1) * width,
                                width,
                                count,
                                first ? rows_of_panel : nullptr,
                                start != nullptr ? start + row * start_stride + column : nullptr,
                                start_stride,
                                p.out + row * p.out_stride + column,
                                p.out_stride,
                                std::min(width, p.columns - column),
                                last && p.relu};
        tile::compute_block(rows, vectors, by_columns, block);
        row += rows;
      }
      k += count;
    } while (k < p.inner);
  }
}

}  // namespace wide::panel_gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::panel_gemm {

WIDE_DISPATCHED(int64_t, packed_floats, (int64_t inner, int64_t columns), inner, columns)
WIDE_DISPATCHED(int64_t, panel_count, (int64_t columns), columns)
WIDE_DISPATCHED(int64_t, first_column, (int64_t columns, int64_t panel), columns, panel)
WIDE_DISPATCHED(void, pack, (const Matrix& matrix, float* panels), matrix, panels)
WIDE_DISPATCHED(void, multiply, (const Product& product, int64_t begin, int64_t end), product,
                begin, end)

}  // namespace wide::panel_gemm
#endif
