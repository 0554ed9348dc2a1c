// naive_mha: three projections, softmax(q kᵀ / sqrt(d)) v per head by matmul, output projection
// shapes: x [N,B,T,D] -> y [N,B,T,D]
// source: attention before any optimisation; its optimised form is scaled_dot_product_attention
#include "blocks/naive.h"

namespace wide::naive_mha_target {
namespace {

Layers layers_of(const Shape& shape) {
  divides("naive_mha", shape, "D", "h");
  Layers layers;
  layers.input("x", {shape["B"], shape["T"], shape["D"]});
  projections(layers, shape["D"]);
  layers.linear("out", shape["D"], shape["D"]);
  return layers;
}

Network naive(const Shape& shape) {
  return layers_of(shape).network("naive_mha", [h = shape["h"]](const Tensors& t) {
    Cursor c(t);
    const Tensor x = c.next();
    const auto projected = [&] { return apart(at::linear(x, c.next()), h); };
    const Tensor q = projected(), k = projected(), v = projected();
    const Tensor y = naive_attention(q, k, v, false);
    return Tensors{c.linear(together(y))};
  });
}

Network optimised(const Shape& shape) {
  return prepared(layers_of(shape), "naive_mha", [h = shape["h"]](const Tensors& t) {
    return [h, qkv = joined(t, 1), w = t[4], b = t[5]](const Tensor& x) {
      const auto parts = at::linear(x, qkv).chunk(3, -1);
      const Tensor y = at::scaled_dot_product_attention(apart(parts[0], h), apart(parts[1], h),
                                                        apart(parts[2], h));
      return at::linear(together(y), w, b);
    };
  });
}

Target target() {
  Target t = component("naive_mha", "Multi-head attention, every step an operator",
                       "y = Wo softmax(q kᵀ / sqrt(d)) v,  NBTD -> NBTD", naive, optimised,
                       "B=8 T=512 D=256 h=8", "B=2 T=16 D=16 h=2");
  t.axes.push_back({"h", "heads of attention"});
  t.flops = [](const Shape& s) { return transformer_flops(s, 4); };
  t.odd_shapes = {"B=3 T=5 D=6 h=3"};
  t.refusals = {{"B=1 T=4 D=6 h=4", "[naive_mha] h: got 4, expected a divisor of D=6; try h=1"}};
  t.oracle = std::string(kNaiveOracle) + "y = mha(t['x'])";
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::naive_mha_target
