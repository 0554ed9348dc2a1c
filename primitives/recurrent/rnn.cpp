// rnn: h' = act(x W_ih^T + h W_hh^T + b), act = tanh or relu
// shapes: x [N,B,T,I], h0 [N,layers*D,B,H] -> y [N,B,T,D*H], h [N,layers*D,B,H]
// source: torch.nn.RNN, any number of layers, both directions, either batch order
#include "primitives/recurrent/recurrent_common.h"

namespace wide::rnn_target {
namespace {

recurrent::Cell cell(const RecurrentConfig& c) {
  const bool relu = c.cell == "rnn_relu";
  return {{},
          false,
          [relu](const Tensor& x, const recurrent::State& state, const Tensor& hidden,
                 const Tensor&) -> recurrent::State {
            const Tensor sum = recurrent::add_product(x, state[0], hidden);
            return {relu ? at::relu(sum) : at::tanh(sum), Tensor()};
          }};
}

Target target() {
  Target t = recurrent::target("rnn", 1, cell);
  t.summary = "Elman recurrence over a sequence";
  t.formula = "h' = act(x W_ihᵀ + h W_hhᵀ + b),  NBTI, NHI, NHH -> NBTH, NBH";
  t.source = "torch.nn.RNN";
  t.axes.push_back({"relu", "1: relu in place of tanh", 0});
  t.odd_shapes.push_back("B=2 T=3 I=5 H=7 relu=1");
  t.oracle = recurrent::oracle("RNN", "t['h0']", ", nonlinearity='relu' if a.relu else 'tanh'");
  t.claims = {
      {"aten::rnn_tanh", [](const CallView& c) { return recurrent::claim(c, "rnn_tanh"); }},
      {"aten::rnn_relu", [](const CallView& c) { return recurrent::claim(c, "rnn_relu"); }}};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::rnn_target
