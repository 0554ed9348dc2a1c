#include "primitives/kernels/panel_gemm.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/panel_gemm.cpp"
#include "primitives/kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace wide::panel_gemm::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr int kMostVectors = 3;  // of a panel
// Sums, a row of the panel and one element of `a` fit the registers.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM
constexpr int kMostRows = 8;
#else
constexpr int kMostRows = 4;
#endif

/// Rows of a panel that stay in the second-level cache while blocks of rows of `a` pass over them.
constexpr int64_t kInnerBlock = 512;

int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

/// Columns in vectors, spread evenly over panels, the wider ones first.
struct Cut {
  int64_t vectors, panels;
  explicit Cut(int64_t columns)
      : vectors((columns + lanes() - 1) / lanes()),
        panels((vectors + kMostVectors - 1) / kMostVectors) {}
  int64_t first_vector(int64_t panel) const {
    return vectors / panels * panel + std::min(panel, vectors % panels);
  }
};

/// Some rows of a product at one panel.
struct Block {
  const float* a;
  int64_t a_stride, a_step;
  const float* panel;  // the first row to be multiplied
  int64_t inner;       // rows of it
  // What the sums begin with: the bias, rows of sums so far or of a residual, or both.
  const float *bias, *start;  // or none
  int64_t start_stride;
  float* out;
  int64_t out_stride;
  int64_t columns;  // that are there; the panel may have more
  bool relu;
};

/// The last vector of a row, of which only some lanes are there.
V load_part(const float* from, int64_t count) {
  const D d;
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float all[hn::MaxLanes(d)] = {};
  std::memcpy(all, from, static_cast<size_t>(count) * sizeof(float));
  return hn::Load(d, all);
#else
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
#endif
}

void store_part(V v, float* to, int64_t count) {
  const D d;
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float all[hn::MaxLanes(d)];
  hn::Store(v, d, all);
  std::memcpy(to, all, static_cast<size_t>(count) * sizeof(float));
#else
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#endif
}

template <int kRows, int kVectors>
HWY_NOINLINE void compute(const Block& b) {
  const D d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  const int64_t part = b.columns - (kVectors - 1) * kLanes;  // of the last vector
  const auto load = [&](const float* row, int v) {
    return v + 1 < kVectors || part >= kLanes ? hn::LoadU(d, row + v * kLanes)
                                              : load_part(row + v * kLanes, part);
  };
  V sum[kRows][kVectors];
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    const V bias = b.bias != nullptr ? hn::LoadU(d, b.bias + v * kLanes) : hn::Zero(d);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      sum[r][v] = b.start != nullptr ? hn::Add(bias, load(b.start + r * b.start_stride, v)) : bias;
  }
  const float* panel = b.panel;
  const float* a[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) a[r] = b.a + r * b.a_stride;
  for (int64_t k = 0, at = 0; k < b.inner; ++k, at += b.a_step) {
    V w[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) w[v] = hn::LoadU(d, panel + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, a[r][at]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(x, w[v], sum[r][v]);
    }
    panel += kVectors * kLanes;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      V y = sum[r][v];
      if (b.relu) y = hn::IfThenZeroElse(hn::Lt(y, hn::Zero(d)), y);
      float* to = b.out + r * b.out_stride + v * kLanes;
      if (v + 1 < kVectors || part >= kLanes)
        hn::StoreU(y, d, to);
      else
        store_part(y, to, part);
    }
}

template <int kVectors, int kRows = kMostRows>
void compute_rows(int64_t rows, const Block& block) {
  if (rows == kRows) return compute<kRows, kVectors>(block);
  if constexpr (kRows > 1) compute_rows<kVectors, kRows - 1>(rows, block);
}

void compute_block(int64_t rows, int64_t vectors, const Block& block) {
  if (vectors == 1) return compute_rows<1>(rows, block);
  if (vectors == 2) return compute_rows<2>(rows, block);
  compute_rows<3>(rows, block);
}

}  // namespace

int64_t packed_floats(int64_t inner, int64_t columns) {
  return (inner + 1) * Cut(columns).vectors * lanes();
}

int64_t panel_count(int64_t columns) { return Cut(columns).panels; }

int64_t first_column(int64_t columns, int64_t panel) {
  return std::min(columns, Cut(columns).first_vector(panel) * lanes());
}

void pack(const Matrix& m, float* panels) {
  const Cut cut(m.columns);
  for (int64_t p = 0; p < cut.panels; ++p) {
    const int64_t begin = cut.first_vector(p) * lanes(), end = cut.first_vector(p + 1) * lanes();
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
    // Columns that lie as rows are read a cache line at a time, and written some side by side.
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
  const Cut cut(p.columns);
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t from = cut.first_vector(panel), vectors = cut.first_vector(panel + 1) - from;
    const int64_t column = from * lanes(), width = vectors * lanes();
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
        compute_block(rows, vectors,
                      {p.a + row * p.a_stride + k * p.a_step, p.a_stride, p.a_step,
                       rows_of_panel + (k + 1) * width, count, first ? rows_of_panel : nullptr,
                       start != nullptr ? start + row * start_stride + column : nullptr,
                       start_stride, p.out + row * p.out_stride + column, p.out_stride,
                       std::min(width, p.columns - column), last && p.relu});
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

HWY_EXPORT(packed_floats);
HWY_EXPORT(panel_count);
HWY_EXPORT(first_column);
HWY_EXPORT(pack);
HWY_EXPORT(multiply);

int64_t packed_floats(int64_t inner, int64_t columns) {
  return HWY_DYNAMIC_DISPATCH(packed_floats)(inner, columns);
}

int64_t panel_count(int64_t columns) { return HWY_DYNAMIC_DISPATCH(panel_count)(columns); }

int64_t first_column(int64_t columns, int64_t panel) {
  return HWY_DYNAMIC_DISPATCH(first_column)(columns, panel);
}

void pack(const Matrix& matrix, float* panels) { HWY_DYNAMIC_DISPATCH(pack)(matrix, panels); }

void multiply(const Product& product, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(multiply)(product, begin, end);
}

}  // namespace wide::panel_gemm
#endif
