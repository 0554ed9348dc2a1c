#pragma once
#include <cstdint>

namespace wide::attention_rows {

/// Rows of scores, which the softmax replaces by e^(scale x) / (sum of these in the row). A NaN
/// makes its whole row NaN.
struct Rows {
  float* scores = nullptr;
  int64_t count = 0, columns = 0;
  int64_t stride = 0;  // a multiple of 16 >= `columns`; rows are written up to it
  float scale = 1;
  int64_t first = -1;          // row r uses its first `first` + r + 1 columns only; -1: all
  bool empty_is_zero = false;  // a row of minus infinities becomes 0; else NaN
};
void softmax(const Rows& rows);

/// Rows of scores, which become scale x + added, or, where `counts` is false, minus infinity. One
/// of `added` and `counts` is set; its rows are `mask_stride` apart.
struct MaskedRows {
  float* scores = nullptr;
  int64_t count = 0, columns = 0, stride = 0;
  float scale = 1;
  const float* added = nullptr;
  const bool* counts = nullptr;
  int64_t mask_stride = 0;
};
void mask(const MaskedRows& rows);

/// One block of columns of a softmax over several blocks: scores become e^(scale x - most). For
/// each row, `most` is the greatest scaled score so far, `sum` the sum of e^(scale x - most) so
/// far, and `shrunk` the factor for results of earlier blocks.
struct BlockRows {
  float* scores = nullptr;
  int64_t count = 0, columns = 0;
  int64_t stride = 0;  // a multiple of 16; rows are written up to it
  float scale = 1;
  int64_t first = 0;  // row r uses its first `first` + r + 1 columns only; <= 0: none
  bool causal = false;
  float *most = nullptr, *sum = nullptr, *shrunk = nullptr;
};
void add_block(const BlockRows& rows);

/// For the backward pass: `shares` holds scaled scores minus the logarithm of their sum and becomes
/// e^shares (the softmax); gradients become shares * gradients. Rows are keys, columns queries; if
/// `causal`, row r is zero before column `first` + r.
struct BackwardRows {
  float *shares = nullptr, *gradients = nullptr;
  int64_t count = 0, columns = 0;
  int64_t stride = 0;  // a multiple of 16
  int64_t first = 0;
  bool causal = false;
};
void shares_and_gradients(const BackwardRows& rows);

}  // namespace wide::attention_rows
