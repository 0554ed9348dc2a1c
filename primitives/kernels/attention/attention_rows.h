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

/// Rows of scores, scaled and masked: x to scale x + added, or to minus infinity where it does not
/// count. One of `added` and `counts` is there, its rows `mask_stride` apart.
struct MaskedRows {
  float* scores = nullptr;
  int64_t count = 0, columns = 0, stride = 0;
  float scale = 1;
  const float* added = nullptr;
  const bool* counts = nullptr;
  int64_t mask_stride = 0;
};
void mask(const MaskedRows& rows);

/// A block of columns of rows of scores, of which the softmax goes over more blocks than one: x to
/// e^(scale x - most). `most`, `sum` and `shrunk` have a number for each row: the greatest scaled
/// score so far, the sum of what is above to this `most`, and what that of the blocks before has to
/// be multiplied by.
struct BlockRows {
  float* scores = nullptr;
  int64_t count = 0, columns = 0;
  int64_t stride = 0;  // a multiple of 16; behind the columns up to there is written
  float scale = 1;
  int64_t first = 0;  // row r is over its first `first` + r + 1 columns alone, fewer than one: none
  bool causal = false;
  float *most = nullptr, *sum = nullptr, *shrunk = nullptr;
};
void add_block(const BlockRows& rows);

/// Of scores as they were less the logarithm of their row's sum: shares = e^shares, gradients =
/// shares gradients. Here rows are keys and columns queries; where `first` is given row r begins
/// at column `first` + r, and there are zeros before.
struct BackwardRows {
  float *shares = nullptr, *gradients = nullptr;
  int64_t count = 0, columns = 0;
  int64_t stride = 0;  // a multiple of 16
  int64_t first = 0;
  bool causal = false;
};
void shares_and_gradients(const BackwardRows& rows);

}  // namespace wide::attention_rows
