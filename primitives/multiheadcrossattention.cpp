// multiheadcrossattention: softmax(q kᵀ / sqrt(d)) v per head, q from one sequence, k and v from
// another, all and the result through linear layers
// shapes: x [N,B,Tq,D], context [N,B,Tkv,D], in_proj [N,3D,D], out_proj [N,D,D] -> y [N,B,Tq,D]
// source: torch.nn.MultiheadAttention (cross attention), the weights of q, k and v in one. Its
// linear layers are claimed by linear, scaled_dot_product_attention by attention.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::multiheadcrossattention_target {
namespace {

Network network(const Shape& shape) {
  divides("multiheadcrossattention", shape, "D", "h");
  const int64_t d = shape["D"], h = shape["h"];
  const double scale = 1.0 / std::sqrt(double(d));
  Network net;
  net.name = "multiheadcrossattention";
  net.tensors = {input("x", {shape["B"], shape["Tq"], d}),
                 input("context", {shape["B"], shape["Tkv"], d}),
                 parameter("in_proj_weight", {3 * d, d}, scale),
                 parameter("in_proj_bias", {3 * d}),
                 parameter("out_proj.weight", {d, d}, scale),
                 parameter("out_proj.bias", {d})};
  net.forward = [d, h](const Tensors& t) {
    const int64_t b = t[0].size(0), from = t[0].size(1), to = t[1].size(1);
    const Tensor q = at::linear(t[0], t[2].slice(0, 0, d), t[3].slice(0, 0, d));
    const Tensor kv = at::linear(t[1], t[2].slice(0, d), t[3].slice(0, d));
    const auto pair = kv.view({b, to, 2, h, d / h}).permute({2, 0, 3, 1, 4}).unbind(0);
    const Tensor a = at::scaled_dot_product_attention(q.view({b, from, h, d / h}).transpose(1, 2),
                                                      pair[0], pair[1]);
    return Tensors{at::linear(a.transpose(1, 2).reshape({b, from, d}), t[4], t[5])};
  };
  return net;
}

Target target() {
  Target t;
  t.name = "multiheadcrossattention";
  t.family = "attention";
  t.summary = "Multi-head attention from one sequence to another";
  t.formula = "y = softmax(q kᵀ / sqrt(d)) v,  NBTD, NBSD -> NBTD";
  t.source = "torch.nn.MultiheadAttention";
  t.network = network;
  t.axes = axes({"B"}, {{"Tq", "steps that ask"},
                        {"Tkv", "steps that are asked"},
                        {"D", "features"},
                        {"h", "heads of attention"}});
  const Shape quick{"B=8 Tq=64 Tkv=64 D=256 h=8"};
  t.sweeps["quick"] = {quick_n(), {quick}};
  t.sweeps["full"] = {full_n(), {quick}};
  t.sweeps["ci"] = {{4, 16}, {"B=2 Tq=16 Tkv=8 D=32 h=4"}};
  t.flops = [](const Shape& s) {
    const double b = double(s["B"]), d = double(s["D"]), q = double(s["Tq"]), k = double(s["Tkv"]);
    return 4.0 * b * (q + k) * d * d + 4.0 * b * q * k * d;
  };
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "two linear layers around a softmax over Tkv terms";
  t.odd_shapes = {"B=3 Tq=1 Tkv=5 D=6 h=3", "B=1 Tq=7 Tkv=2 D=3 h=1"};
  t.refusals = {{"B=1 Tq=2 Tkv=3 D=6 h=4",
                 "[multiheadcrossattention] h: got 4, expected a divisor of D=6; try h=1"},
                {"B=1 Tq=2 Tkv=0 D=6 h=2",
                 "[multiheadcrossattention] Tkv: got 0, expected at least 1; try Tkv=1"}};
  t.oracle = R"(
layer = load(nn.MultiheadAttention(a.D, a.h, batch_first=True))
y = layer(t['x'], t['context'], t['context'], need_weights=False)[0]
)";
  t.parts = {{"packed", {{"attention", "packed"}}},
             {"fused", {{"attention", "fused"}}},
             {"math", {{"attention", "math"}}}};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::multiheadcrossattention_target
