// lstm: i, f, o = sigmoid(..), g = tanh(..) of x W_ih^T + h W_hh^T + b;  c' = f c + i g;
//       h' = o tanh(c')
// shapes: x [N,B,T,I], h0 c0 [N,layers*D,B,H] -> y [N,B,T,D*H], h c [N,layers*D,B,H]
// source: torch.nn.LSTM, any number of layers, both directions, either batch order
#include "primitives/recurrent/recurrent_common.h"

namespace wide::lstm_target {
namespace {

/// Reorders gates from i f g o to i f o g, so that the three sigmoids are one call on one slice.
Tensor reorder(const Tensor& t) {
  const int64_t h = t.size(1) / 4;
  return at::cat({t.narrow(1, 0, 2 * h), t.narrow(1, 3 * h, h), t.narrow(1, 2 * h, h)}, 1);
}

recurrent::State step(const Tensor& x, const recurrent::State& state, const Tensor& hidden,
                      const Tensor&) {
  const int64_t h = state[0].size(-1);
  const auto parts =
      at::split_with_sizes(recurrent::add_product(x, state[0], hidden), {3 * h, h}, -1);
  const auto gates = at::split(at::sigmoid(parts[0]), h, -1);
  const Tensor c = at::addcmul(gates[1] * state[1], gates[0], at::tanh(parts[1]));
  return {gates[2] * at::tanh(c), c};
}

Target target() {
  const recurrent::Cell cell{reorder, false, step};
  Target t = recurrent::target("lstm", 4, [cell](const RecurrentConfig&) { return cell; });
  t.summary = "Long short-term memory over a sequence";
  t.formula = "c' = f c + i g, h' = o tanh(c'),  NBTI, N4HI, N4HH -> NBTH, NBH, NBH";
  t.source = "torch.nn.LSTM";
  t.oracle = recurrent::oracle("LSTM", "(t['h0'], t['c0'])");
  t.claims = {{"aten::lstm", [](const CallView& c) { return recurrent::claim(c, "lstm"); }}};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::lstm_target
