// transformer: a pre-norm transformer block;  lstm_net: LSTM, then Linear on the last step
// shapes: x [N,B,T,D] -> y [N,B,T,D];  x [N,B,T,I] -> y [N,B,8]
#include "blocks/layers.h"

namespace wide::sequence_target {
namespace {

Network transformer(const Shape& shape) {
  divides("transformer", shape, "D", "h");
  const int64_t d = shape["D"], h = shape["h"];
  Layers layers;
  layers.input("x", {shape["B"], shape["T"], d});
  layers.norm("n1", d);
  layers.linear("qkv", d, 3 * d);
  layers.linear("o", d, d);
  layers.norm("n2", d);
  layers.linear("u", d, 4 * d);
  layers.linear("d", 4 * d, d);
  return layers.network("transformer", [h](const Tensors& t) {
    Cursor c(t);
    Tensor x = c.next();
    const int64_t b = x.size(0), len = x.size(1), dim = x.size(2);
    const auto qkv =
        c.linear(c.layer_norm(x)).view({b, len, 3, h, dim / h}).permute({2, 0, 3, 1, 4}).unbind(0);
    const Tensor a = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
    x = x + c.linear(a.transpose(1, 2).reshape({b, len, dim}));
    const Tensor hidden = at::gelu(c.linear(c.layer_norm(x)));
    return Tensors{x + c.linear(hidden)};
  });
}

Network lstm_net(const Shape& shape) {
  const int64_t in = shape["I"], h = shape["H"];
  Layers layers;
  layers.input("x", {shape["B"], shape["T"], in});
  layers.tensors.push_back(parameter("r.weight_ih_l0", {4 * h, in}, 1 / std::sqrt(double(h))));
  layers.tensors.push_back(parameter("r.weight_hh_l0", {4 * h, h}, 1 / std::sqrt(double(h))));
  layers.tensors.push_back(parameter("r.bias_ih_l0", {4 * h}));
  layers.tensors.push_back(parameter("r.bias_hh_l0", {4 * h}));
  layers.linear("o", h, 8);
  return layers.network("lstm_net", [h](const Tensors& t) {
    const Tensor state = at::zeros({1, t[0].size(0), h}, t[0].options());
    const auto [y, hn, cn] =
        at::lstm(t[0], {state, state}, {t[1], t[2], t[3], t[4]}, true, 1, 0.0, false, false, true);
    return Tensors{at::linear(y.select(1, -1), t[5], t[6])};
  });
}

Target transformer_target() {
  Target t = model_target("transformer", "Pre-norm transformer block", "NBTD -> NBTD", transformer,
                          {{16}, {"B=4 T=32 D=64 h=4"}});
  t.axes = axes({"B", "T", "D", "h"});
  t.sweeps["ci"] = {{4, 16}, {"B=2 T=8 D=16 h=2"}};
  t.flops = [](const Shape& s) { return transformer_flops(s, 12); };
  t.refusals = {{"B=1 T=4 D=6 h=4", "[transformer] h: got 4, expected a divisor of D=6; try h=1"}};
  return t;
}

Target lstm_target() {
  Target t = model_target("lstm_net", "LSTM over a sequence, Linear on the last step",
                          "NBTI -> NB8", lstm_net, {{8}, {"B=8 T=32 I=64 H=128"}});
  t.axes = axes({"B", "T"}, {{"I", "features in"}, {"H", "features of the state"}});
  t.sweeps["ci"] = {{4, 8}, {"B=2 T=8 I=8 H=16"}};
  t.flops = [](const Shape& s) {
    return 8.0 * double(s["B"]) * double(s["T"]) * double(s["H"]) * double(s["I"] + s["H"]) +
           16.0 * double(s["B"]) * double(s["H"]);
  };
  t.refusals = {{"B=1 T=1 I=0 H=2", "[lstm_net] I: got 0, expected at least 1; try I=1"}};
  return t;
}

[[maybe_unused]] const bool registered[] = {add_target(transformer_target(), __FILE__),
                                            add_target(lstm_target(), __FILE__)};

}  // namespace
}  // namespace wide::sequence_target
