// mlp_embedder: y = W2 silu(W1 x + b1) + b2
// shapes: x [N,B,D], W1 [N,H,D], W2 [N,O,H] -> y [N,B,O]   (by default H = 4 D and O = D)
// source: FLUX, MLPEmbedder. It has no strategies of its own: `linear` recognises both aten::linear
// calls, and its strategy `packed` applies SiLU within the GEMM.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::mlp_embedder_target {
namespace {

Network network(const Shape& shape) {
  at_least_where_given("mlp_embedder", shape, {"O"}, 1);
  const int64_t d = shape["D"], hidden = shape.get("H", 4 * d), out = shape.get("O", d);
  if (hidden < 1) fail("[mlp_embedder] H: got {}, expected at least 1; try H={}", hidden, 4 * d);
  return {.name = "mlp_embedder",
          .tensors = {input("x", {shape["B"], d}),
                      parameter("in_layer.weight", {hidden, d}, 1.0 / std::sqrt(double(d))),
                      parameter("in_layer.bias", {hidden}),
                      parameter("out_layer.weight", {out, hidden}, 1.0 / std::sqrt(double(hidden))),
                      parameter("out_layer.bias", {out})},
          .forward = [](const Tensors& t) {
            return Tensors{at::linear(at::silu(at::linear(t[0], t[1], t[2])), t[3], t[4])};
          }};
}

Target target() {
  Target t;
  t.name = "mlp_embedder";
  t.family = "linear";
  t.summary = "Linear, SiLU, Linear";
  t.formula = "y = W2 silu(W1 x + b1) + b2,  NBD -> NBO";
  t.source = "FLUX, MLPEmbedder";
  t.network = network;
  t.axes = axes({"B", "D"},
                {{"H", "features between the layers", {}, "4 D"}, {"O", "features out", {}, "D"}});
  const std::vector<Shape> shapes{"B=8 D=128", "B=8 D=256"};
  t.sweeps["quick"] = {quick_n(), shapes};
  t.sweeps["full"] = {full_n(), shapes};
  t.sweeps["ci"] = {{4, 16}, {"B=4 D=32"}};
  t.flops = [](const Shape& s) {
    const int64_t d = s["D"];
    return 2.0 * double(s["B"]) * double(s.get("H", 4 * d)) * double(d + s.get("O", d));
  };
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-11}};
  t.tolerance_reason = "two dot products of up to 4D terms";
  t.odd_shapes = {"B=1 D=1", "B=3 D=5 H=7 O=2"};
  t.refusals = {{"B=1 D=0", "[mlp_embedder] D: got 0, expected at least 1; try D=1"},
                {"B=1 D=2 H=0", "[mlp_embedder] H: got 0, expected at least 1; try H=8"}};
  t.oracle = "y = linear('out_layer')(nn.SiLU()(linear('in_layer')(t['x'])))";
  t.parts = {{"fused", {{"linear", "packed"}}}, {"einsum", {{"linear", "einsum"}}}};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::mlp_embedder_target
