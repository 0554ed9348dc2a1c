#pragma once
#include <cstdint>

/// Products with a matrix packed in panels of up to three vectors of columns: each `[1 + K,
/// width]`, with the bias as first row. Their width depends on the instruction set, so packing and
/// multiplying must run under the same one. A few columns are one panel with contiguous columns
/// (gemm_narrow.h).
namespace wide::panel_gemm {

/// A matrix `[inner, columns]` by its strides, and a bias or none.
struct Matrix {
  int64_t inner = 0, columns = 0;
  const float* data = nullptr;
  int64_t row_stride = 0, column_stride = 0;
  const float* bias = nullptr;
  int64_t bias_stride = 1;
};

/// Floats in the panels of such a matrix.
int64_t packed_floats(int64_t inner, int64_t columns);
void pack(const Matrix& matrix, float* panels);

/// The number of panels into which columns are cut.
int64_t panel_count(int64_t columns);
/// The first column of panel `panel`; that of panel `panel_count` is `columns`.
int64_t first_column(int64_t columns, int64_t panel);

/// out = [relu](a matrix + bias [+ residual]). Products are added to bias and residual in the order
/// of `inner`, whichever rows and panels are computed.
struct Product {
  int64_t rows = 0, inner = 0, columns = 0;
  const float* a = nullptr;  // [rows, inner], rows `a_stride` apart, columns `a_step`; one is 1
  int64_t a_stride = 0, a_step = 1;
  const float* panels = nullptr;
  const float* residual = nullptr;  // [rows, columns] or null; may be `out`
  int64_t residual_stride = 0;
  float* out = nullptr;  // [rows, columns]
  int64_t out_stride = 0;
  bool relu = false;  // keeps NaN, as relu does
};

/// Computes the columns of panels [begin, end).
void multiply(const Product& product, int64_t begin, int64_t end);

/// out = a panels, or out += a panels if `add`. `end` -1: all panels from `begin` on.
inline void multiply(int64_t rows, int64_t inner, int64_t columns, const float* a, int64_t a_stride,
                     int64_t a_step, const float* panels, float* out, int64_t out_stride, bool add,
                     int64_t begin = 0, int64_t end = -1) {
  multiply({rows, inner, columns, a, a_stride, a_step, panels, add ? out : nullptr,
            add ? out_stride : 0, out, out_stride},
           begin, end < 0 ? panel_count(columns) : end);
}

}  // namespace wide::panel_gemm
