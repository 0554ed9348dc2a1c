// naive_layernorm: (x - mean) / sqrt(var + eps) * w + b in primitive operations
// shapes: x [N,B,T,D], w b [N,D] -> y [N,B,T,D]
// source: layer normalisation before any optimisation; after: layer_norm
#include "blocks/naive.h"

namespace wide::naive_layernorm_target {
namespace {

Layers layers_of(const Shape& shape) {
  Layers layers;
  layers.input("x", {shape["B"], shape["T"], shape["D"]});
  layers.norm("norm", shape["D"]);
  return layers;
}

Network naive(const Shape& shape) {
  return layers_of(shape).network("naive_layernorm", [](const Tensors& t) {
    return Tensors{naive_layer_norm(t[0], t[1], t[2])};
  });
}

Network optimised(const Shape& shape) {
  return layers_of(shape).network("naive_layernorm", [](const Tensors& t) {
    return Tensors{at::layer_norm(t[0], {t[0].size(-1)}, t[1], t[2], 1e-5)};
  });
}

Target target() {
  Target t = component("naive_layernorm", "Layer normalisation, every step an operator",
                       "y = (x - mean) / sqrt(var + eps) * w + b,  NBTD -> NBTD", naive, optimised,
                       "B=8 T=512 D=1024", "B=2 T=8 D=24");
  t.flops = [](const Shape& s) { return 8.0 * double(s["B"] * s["T"] * s["D"]); };
  t.tolerance_reason = "mean and variance sum D terms in single precision";
  t.refusals = {{"B=1 T=4 D=0", "[naive_layernorm] D: got 0, expected at least 1; try D=1"}};
  t.oracle = "y = load(nn.LayerNorm(a.D), 'norm.')(t['x'])";
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::naive_layernorm_target
