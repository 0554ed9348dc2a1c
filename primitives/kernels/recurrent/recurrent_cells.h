#pragma once
#include <cstdint>

/// The steps of recurrent cells on gates that the matrix products have computed: torch.nn.LSTM's,
/// GRU's and RNN's formulas. sigmoid and tanh in them are within 2e-7 of the true values, relative;
/// NaN in a unit's gates or state makes that unit NaN.
namespace wide::recurrent_cells {

/// One step of `count` sequences with `width` units each. `h` and `c` `[count, width]` are the
/// states, which are overwritten; rows of `y` get the new `h`.
struct Step {
  const float* gates = nullptr;  // rows `gates_stride` apart; one gate after the other
  int64_t gates_stride = 0;
  float *h = nullptr, *c = nullptr;  // c: of lstm
  float* y = nullptr;
  int64_t y_stride = 0, count = 0, width = 0;
};

void lstm(const Step& step);  // gates i f g o
void gru(const Step& step);   // input's part of n, r, z; hidden part of n
void rnn_tanh(const Step& step);
void rnn_relu(const Step& step);

}  // namespace wide::recurrent_cells
