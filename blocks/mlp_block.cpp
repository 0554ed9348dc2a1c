// mlp_block: y = W2 gelu(W1 x + b1) + b2, hidden width 4 D
// shapes: x [N,B,T,D] -> y [N,B,T,D]
// source: the feed-forward half of a transformer layer
#include "blocks/layers.h"

namespace wide::mlp_block_target {
namespace {

Network network(const Shape& shape) {
  at_least_where_given("mlp_block", shape, {"hidden"}, 1);
  const int64_t d = shape["D"], hidden = shape.get("hidden", 4 * d);
  Layers layers;
  layers.input("x", {shape["B"], shape["T"], d});
  layers.linear("up", d, hidden);
  layers.linear("down", hidden, d);
  return layers.network("mlp_block", [](const Tensors& t) {
    Cursor c(t);
    const Tensor h = at::gelu(c.linear(c.next()));
    return Tensors{c.linear(h)};
  });
}

Target target() {
  Target t;
  t.name = "mlp_block";
  t.kind = Kind::block;
  t.family = "feed-forward";
  t.summary = "Linear to 4D, GELU, Linear back";
  t.formula = "y = W2 gelu(W1 x + b1) + b2,  NBTD -> NBTD";
  t.source = "transformer feed-forward layer";
  t.network = network;
  t.axes = axes({"B", "T", "D"}, {{"hidden", "features between the layers", {}, "4 D"}});
  const Shape quick{"B=4 T=128 D=256"};
  t.sweeps["quick"] = {quick_n(), {quick}};
  t.sweeps["full"] = {{2, 4, 8, 16, 32, 64}, {quick}};
  t.sweeps["ci"] = {{4, 16}, {"B=2 T=16 D=32"}};
  t.flops = [](const Shape& s) {
    return 4.0 * double(s["B"]) * double(s["T"]) * double(s["D"]) *
           double(s.get("hidden", 4 * s["D"]));
  };
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-11}};
  t.tolerance_reason = "two dot products of up to 4D terms";
  t.refusals = {{"B=1 T=1 D=0", "[mlp_block] D: got 0, expected at least 1; try D=1"}};
  t.oracle = "y = linear('down')(nn.functional.gelu(linear('up')(t['x'])))";
  t.parts = {{"fused", {{"linear", "packed"}}}, {"einsum", {{"linear", "einsum"}}}};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::mlp_block_target
