#pragma once
#include <cstdint>

/// Products of matrices in place, with contiguous rows or columns: nothing is packed before a call,
/// as operands may change with every call.
namespace wide::matmul_tile {

/// A matrix by its strides, in floats.
struct Matrix {
  const float* data = nullptr;
  int64_t row_stride = 0, column_stride = 0;
};

/// out = [relu](a b + bias). Products are added to the bias in the order of `inner`, whichever
/// columns are computed and whatever the strides.
struct Product {
  int64_t rows = 0, inner = 0, columns = 0;
  Matrix a;                     // [rows, inner], one of its strides is 1
  Matrix b;                     // [inner, columns]
  const float* bias = nullptr;  // [columns] or null
  int64_t bias_stride = 1;
  const float* row_bias = nullptr;  // [rows] or null, in place of `bias`
  float* out = nullptr;             // [rows, columns]
  int64_t out_stride = 0;
  bool relu = false;  // keeps NaN, as relu does
};

/// The number of panels into which columns are cut.
int64_t panel_count(int64_t columns);
/// The first column of panel `panel`; that of panel `panel_count` is `columns`.
int64_t first_column(int64_t columns, int64_t panel);
/// Computes the columns of panels [begin, end).
void multiply(const Product& product, int64_t begin, int64_t end);

}  // namespace wide::matmul_tile
