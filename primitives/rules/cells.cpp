// Rules for single recurrent cells (nn.GRUCell, nn.LSTMCell, nn.RNNCell), whose fused kernels have
// no batching rule, and for the three-way product behind nn.Bilinear.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::cells_rules {
namespace {

struct CellConfig {
  std::string op;
  std::string text() const { return op; }
};

// input, hx, w_ih, w_hh, b_ih, b_hh; of lstm hx is a list of h and c
std::optional<Claimed> claim_cell(const CallView& call, const char* op) {
  const bool lstm = std::string(op) == "lstm";
  const size_t rank = call.is_tensor(0) ? call.value(0).sizes.size() : 0;
  if ((rank != 1 && rank != 2) || !call.is_tensor(2) || !call.is_tensor(3)) return std::nullopt;
  std::vector<ValueId> inputs{call.id(0), call.id(2), call.id(3), call.id(4), call.id(5)};
  const std::vector<ValueId> states = lstm ? call.list(1) : std::vector<ValueId>{call.id(1)};
  if (states.size() != (lstm ? 2U : 1U) || states[0] == kNone) return std::nullopt;
  inputs.insert(inputs.end(), states.begin(), states.end());
  return Claimed{CellConfig{op}, inputs, lstm ? std::vector<int>{0, 1} : std::vector<int>{0}};
}

/// `x Wᵀ + b` for all models; x `[N, I]` or `[N, B, I]`.
Tensor affine(const Tensor& x, const Tensor& w, const Tensor& b) {
  const bool single = x.dim() == 2;
  Tensor y = at::bmm(single ? x.unsqueeze(1) : x, w.transpose(1, 2));
  if (b.defined()) y = y + b.unsqueeze(1);
  return single ? y.squeeze(1) : y;
}

Tensors cell(const CellConfig& c, const WideCall& call) {
  const Tensor& h = call.inputs[5];
  const Tensor from_x = affine(call.inputs[0], call.inputs[1], call.inputs[3]);
  const Tensor from_h = affine(h, call.inputs[2], call.inputs[4]);
  if (c.op == "tanh") return {at::tanh(from_x + from_h)};
  if (c.op == "relu") return {at::relu(from_x + from_h)};
  if (c.op == "lstm") {
    const auto gates = (from_x + from_h).chunk(4, -1);  // input, forget, cell, output
    const Tensor next =
        at::sigmoid(gates[1]) * call.inputs[6] + at::sigmoid(gates[0]) * at::tanh(gates[2]);
    return {at::sigmoid(gates[3]) * at::tanh(next), next};
  }
  const auto x = from_x.chunk(3, -1), r = from_h.chunk(3, -1);  // reset, update, new
  const Tensor update = at::sigmoid(x[1] + r[1]);
  // The reset gate multiplies the hidden state's part, bias included.
  const Tensor fresh = at::tanh(x[2] + at::sigmoid(x[0] + r[0]) * r[2]);
  return {fresh + update * (h - fresh)};
}

struct TrilinearConfig {
  Sizes expand1, expand2, expand3, sum;
  int64_t unroll = 1;
  std::string text() const {
    return fmt::format("expand={}/{}/{} sum={}", list_text(expand1), list_text(expand2),
                       list_text(expand3), list_text(sum));
  }
};

std::optional<Claimed> claim_trilinear(const CallView& call) {
  for (size_t i = 0; i < 3; ++i)
    if (!call.is_tensor(i)) return std::nullopt;
  TrilinearConfig c{call.ints(3), call.ints(4), call.ints(5), call.ints(6),
                    static_cast<int64_t>(call.number(7, 1))};
  for (const Sizes* axes : {&c.expand1, &c.expand2, &c.expand3, &c.sum})
    for (const int64_t axis : *axes)
      if (axis < 0) return std::nullopt;
  return c.unroll < 0 ? std::nullopt
                      : std::optional(Claimed{c, {call.id(0), call.id(1), call.id(2)}, {0}});
}

/// All three inputs have N as a leading axis, so every axis that the call names moves up by one.
Tensors trilinear(const TrilinearConfig& c, const WideCall& call) {
  const auto next = [](Sizes axes) {
    for (int64_t& axis : axes) ++axis;
    return axes;
  };
  return {at::_trilinear(call.inputs[0], call.inputs[1], call.inputs[2], next(c.expand1),
                         next(c.expand2), next(c.expand3), next(c.sum), c.unroll + 1)};
}

Claim cell_claim(const char* op, const char* cell) {
  return {op, [cell](const CallView& call) { return claim_cell(call, cell); }};
}

WIDE_RULES(
    // x NBI, h NBH, W NGI, W NGH, b NG -> h NBH, of lstm c NBH too
    {.name = "recurrent_cell",
     .summary = "One step of a recurrent layer for all models at once",
     .claims = {cell_claim("aten::gru_cell", "gru"), cell_claim("aten::lstm_cell", "lstm"),
                cell_claim("aten::rnn_tanh_cell", "tanh"),
                cell_claim("aten::rnn_relu_cell", "relu")},
     .strategies = {strategy<CellConfig>("wide", "two batched GEMMs and the gates", cell)},
     .parameter_inputs = {false, true, true, true, true}},
    // of Bilinear: x NBI, W NOIJ, y NBJ -> NBO. `expand` names axes of size 1 that each input is
    // given, so that they multiply elementwise; `sum` the axes summed over.
    {.name = "trilinear",
     .summary = "The three-way product of nn.Bilinear",
     .claims = {{"aten::_trilinear", claim_trilinear}},
     .strategies = {strategy<TrilinearConfig>("wide", "N as one more axis", trilinear)}});

}  // namespace
}  // namespace wide::cells_rules
