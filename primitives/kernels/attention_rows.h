#pragma once
#include <cstdint>

namespace wide::attention_rows {

/// Rows of scores, which become shares: x to e^(scale x) over the row's sum of them. NaN in a row
/// makes all of it NaN.
struct Rows {
  float* scores = nullptr;
  int64_t count = 0, columns = 0;
  int64_t stride = 0;  // at least `columns` and a multiple of 16: up to there rows are written
  float scale = 1;
  int64_t first = -1;  // row r is over its first `first` + r + 1 columns alone; -1: over all
};
void softmax(const Rows& rows);

}  // namespace wide::attention_rows
