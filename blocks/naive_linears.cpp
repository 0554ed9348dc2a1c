// naive_linears: queries, keys and values by three linear layers, joined
// shapes: x [N,B,T,D] -> y [N,B,T,3D]
// source: linear projections before any optimisation; after: one layer
#include "blocks/naive.h"

namespace wide::naive_linears_target {
namespace {

Layers layers_of(const Shape& shape) {
  Layers layers;
  layers.input("x", {shape["B"], shape["T"], shape["D"]});
  projections(layers, shape["D"]);
  return layers;
}

Network naive(const Shape& shape) {
  return layers_of(shape).network("naive_linears", [](const Tensors& t) {
    const Tensor &x = t[0], q = at::linear(x, t[1]), k = at::linear(x, t[2]),
                 v = at::linear(x, t[3]);
    return Tensors{at::cat({q, k, v}, -1)};
  });
}

Network optimised(const Shape& shape) {
  return prepared(layers_of(shape), "naive_linears", [](const Tensors& t) {
    return [qkv = joined(t, 1)](const Tensor& x) { return at::linear(x, qkv); };
  });
}

Target target() {
  Target t = component("naive_linears", "Three linear layers of one input, joined",
                       "y = [Wq x; Wk x; Wv x],  NBTD -> NBT3D", naive, optimised,
                       "B=8 T=512 D=256", "B=2 T=8 D=16");
  t.flops = [](const Shape& s) { return 6.0 * double(s["B"] * s["T"] * s["D"] * s["D"]); };
  t.refusals = {{"B=1 T=4 D=0", "[naive_linears] D: got 0, expected at least 1; try D=1"}};
  t.oracle = "y = torch.cat([nn.functional.linear(t['x'], t[f'{n}.weight']) for n in 'qkv'], -1)";
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::naive_linears_target
