#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>

namespace wide {

/// One direction of one recurrent layer for N models. `x` `[N, B, T, I]`, or `[N, T, B, I]` when
/// `time_major`; any strides with the last axis contiguous. The columns of the packed weights have
/// this order, H for each gate:
///   lstm      input `[N, I, 4H]` and hidden `[N, H, 4H]` i f g o, bias `[N, 4H]`
///   gru       input `[N, I, 3H]` n r z, hidden `[N, H, 3H]` r z n, bias `[N, 4H]`: of the input's
///             n, the sums of r and of z, of the hidden n
///   rnn_tanh, rnn_relu   `[N, I, H]`, `[N, H, H]`, `[N, H]`
/// `bias` holds both biases, or nothing. `h0` `[N, B, H]`; `c0` too for lstm, else nothing.
struct RecurrentLayer {
  at::Tensor x, input, hidden;
  std::optional<at::Tensor> bias;
  at::Tensor h0;
  std::optional<at::Tensor> c0;
  std::string cell;
  bool reverse = false, time_major = false;
};

/// `wide::recurrent_layer`: the hidden states, `[N, B, T, H]` or `[N, T, B, H]` as `x` is, and the
/// last states `[N, S, B, H]`: h, and c of lstm. float32 on the CPU; its gradient is refused. Loops
/// over models outside and over time inside, so that a model's weights stay in cache.
std::pair<at::Tensor, at::Tensor> recurrent_layer(const RecurrentLayer& layer);

}  // namespace wide
