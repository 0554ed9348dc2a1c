// Operators that devices have and the CPU has not, made of the CPU's.
#include <ATen/ATen.h>

#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

using at::Tensor;
using torch::jit::Stack;
using Tensors = std::vector<Tensor>;

void call_instead(const char* name, Stack& stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
}

void convolution(Stack& stack) { call_instead("aten::convolution", stack); }

void convolution_backward(Stack& stack) {
  const Tensor& weight = stack[2].toTensor();
  const bool transposed = stack[6].toBool();
  const int64_t channels = transposed ? weight.size(1) * stack[8].toInt() : weight.size(0);
  const bool bias = stack[9].toBoolList().get(2);
  stack.insert(stack.begin() + 3,
               bias ? c10::IValue(std::vector<int64_t>{channels}) : c10::IValue());
  call_instead("aten::convolution_backward", stack);
}

Tensor with_bias(const Stack& stack, size_t gates, size_t bias) {
  const Tensor& t = stack[gates].toTensor();
  return stack[bias].isTensor() && stack[bias].toTensor().defined() ? t + stack[bias].toTensor()
                                                                    : t;
}

void return_all(Stack& stack, const Tensors& all) {
  stack.clear();
  for (const Tensor& t : all) stack.emplace_back(t);
}

// Gates of an LSTM lie as input, forget, cell, output; the workspace keeps them activated.
void lstm_cell(Stack& stack) {
  const Tensors gates = (with_bias(stack, 0, 3) + with_bias(stack, 1, 4)).chunk(4, 1);
  const Tensor i = gates[0].sigmoid(), f = gates[1].sigmoid(), g = gates[2].tanh(),
               o = gates[3].sigmoid();
  const Tensor cy = f * stack[2].toTensor() + i * g;
  return_all(stack, {o * cy.tanh(), cy, at::cat({i, f, g, o}, 1)});
}

void lstm_cell_backward(Stack& stack) {
  const Tensor cx = stack[2].toTensor(), tanh = stack[3].toTensor().tanh();
  const Tensors gates = stack[4].toTensor().chunk(4, 1);
  const Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
  const auto given = [&](size_t at) {
    return stack[at].isTensor() && stack[at].toTensor().defined() ? stack[at].toTensor()
                                                                  : at::zeros_like(cx);
  };
  const Tensor hy = given(0), c = given(1) + hy * o * (1 - tanh * tanh);
  const Tensor all = at::cat(
      {c * g * i * (1 - i), c * cx * f * (1 - f), c * i * (1 - g * g), hy * tanh * o * (1 - o)}, 1);
  const bool bias = stack[5].toBool();
  return_all(stack, {all, c * f, bias ? all.sum(0) : Tensor()});
}

// Gates of a GRU lie as reset, input, new; the workspace keeps them, the state and its new gate.
void gru_cell(Stack& stack) {
  const Tensors in = with_bias(stack, 0, 3).chunk(3, 1),
                hidden = with_bias(stack, 1, 4).chunk(3, 1);
  const Tensor hx = stack[2].toTensor();
  const Tensor r = (in[0] + hidden[0]).sigmoid(), z = (in[1] + hidden[1]).sigmoid();
  const Tensor n = (in[2] + r * hidden[2]).tanh();
  return_all(stack, {n + z * (hx - n), at::cat({r, z, n, hx, hidden[2]}, 1)});
}

void gru_cell_backward(Stack& stack) {
  const Tensor grad = stack[0].toTensor();
  const Tensors kept = stack[1].toTensor().chunk(5, 1);
  const Tensor &r = kept[0], &z = kept[1], &n = kept[2], &hx = kept[3], &hidden = kept[4];
  const Tensor at_n = grad * (1 - z) * (1 - n * n), at_z = grad * (hx - n) * z * (1 - z);
  const Tensor at_r = at_n * hidden * r * (1 - r);
  const Tensor in = at::cat({at_r, at_z, at_n}, 1), to = at::cat({at_r, at_z, at_n * r}, 1);
  const bool bias = stack[2].toBool();
  return_all(stack, {in, to, grad * z, bias ? in.sum(0) : Tensor(), bias ? to.sum(0) : Tensor()});
}

}  // namespace

Replacement replacement_of(const c10::OperatorHandle& op) {
  static const std::map<std::string, Replacement> all = {
      {"aten::convolution_overrideable", &convolution},
      {"aten::convolution_backward_overrideable", &convolution_backward},
      {"aten::_thnn_fused_lstm_cell", &lstm_cell},
      {"aten::_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward},
      {"aten::_thnn_fused_gru_cell", &gru_cell},
      {"aten::_thnn_fused_gru_cell_backward", &gru_cell_backward}};
  const auto found = all.find(op.operator_name().name);
  return found == all.end() || !op.operator_name().overload_name.empty() ? nullptr : found->second;
}

}  // namespace wide::simulated
