// gru: r, z = sigmoid(..) of x W_ih^T + h W_hh^T + b;  n = tanh(x W_in^T + b_in + r (h W_hn^T +
//      b_hn));  h' = (1 - z) n + z h
// shapes: x [N,B,T,I], h0 [N,layers*D,B,H] -> y [N,B,T,D*H], h [N,layers*D,B,H]
// source: torch.nn.GRU, any number of layers, both directions, either batch order
#include "primitives/recurrent/recurrent_common.h"

namespace wide::gru_target {
namespace {

recurrent::State step(const Tensor& x, const recurrent::State& state, const Tensor& hidden,
                      const Tensor& bias) {
  const int64_t h = state[0].size(-1);
  const Tensor product = recurrent::add_product(bias, state[0], hidden);
  const auto from_x = at::split_with_sizes(x, {2 * h, h}, -1);
  const auto from_h = at::split_with_sizes(product, {2 * h, h}, -1);
  const auto gates = at::split(at::sigmoid(from_x[0] + from_h[0]), h, -1);
  const Tensor candidate = at::tanh(at::addcmul(from_x[1], gates[0], from_h[1]));
  // Under autocast the products are of its dtype, the state and the biases may be of another one.
  const at::ScalarType own = state[0].scalar_type();
  const at::ScalarType both = c10::promoteTypes(candidate.scalar_type(), own);
  const Tensor next = at::lerp(candidate.to(both), state[0].to(both), gates[1].to(both));
  return {next.to(own), Tensor()};
}

Target target() {
  // The candidate n multiplies the hidden part with its bias by r, so it needs that part alone.
  const recurrent::Cell cell{{}, true, step};
  Target t = recurrent::target("gru", 3, [cell](const RecurrentConfig&) { return cell; });
  t.summary = "Gated recurrent unit over a sequence";
  t.formula = "h' = (1 - z) n + z h,  NBTI, N3HI, N3HH -> NBTH, NBH";
  t.source = "torch.nn.GRU";
  t.oracle = recurrent::oracle("GRU", "t['h0']");
  t.claims = {{"aten::gru", [](const CallView& c) { return recurrent::claim(c, "gru"); }}};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::gru_target
