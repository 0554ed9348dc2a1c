#pragma once
#include <cstdint>

/// Products of matrices as they lie, rows or columns one after the other: nothing is laid out ahead
/// of a call, as it would have to be for operands that change from call to call.
namespace wide::matmul_tile {

/// A matrix by its strides, in floats.
struct Matrix {
  const float* data = nullptr;
  int64_t row_stride = 0, column_stride = 0;
};

/// out = [relu](a b + bias). Every element begins with the bias, to which the products are added in
/// the order of `inner`, whatever columns are asked for and wherever they lie.
struct Product {
  int64_t rows = 0, inner = 0, columns = 0;
  Matrix a;                     // [rows, inner], one of its strides is 1
  Matrix b;                     // [inner, columns]
  const float* bias = nullptr;  // [columns] or none
  int64_t bias_stride = 1;
  const float* row_bias = nullptr;  // [rows] or none, in place of `bias`
  float* out = nullptr;             // [rows, columns]
  int64_t out_stride = 0;
  bool relu = false;  // keeps NaN, as relu does
};

/// How columns are cut into panels, which are computed one by one.
int64_t panel_count(int64_t columns);
/// The first column of panel `panel`; that of panel `panel_count` is `columns`.
int64_t first_column(int64_t columns, int64_t panel);
/// Computes the columns of panels [begin, end).
void multiply(const Product& product, int64_t begin, int64_t end);

}  // namespace wide::matmul_tile
