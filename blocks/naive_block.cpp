// naive_block: x + mha(norm(x)), then x + W2 gelu(W1 norm(x)), norms and attention written out
// shapes: x [N,B,T,D] -> y [N,B,T,D]
// source: a transformer block before any optimisation
#include "blocks/naive.h"

namespace wide::naive_block_target {
namespace {

Layers layers_of(const Shape& shape) {
  divides("naive_block", shape, "D", "h");
  const int64_t d = shape["D"];
  Layers layers;
  layers.input("x", {shape["B"], shape["T"], d});
  layers.norm("n1", d);
  projections(layers, d);
  layers.linear("out", d, d);
  layers.norm("n2", d);
  layers.linear("up", d, 4 * d);
  layers.linear("down", 4 * d, d);
  return layers;
}

Network naive(const Shape& shape) {
  return layers_of(shape).network("naive_block", [h = shape["h"]](const Tensors& t) {
    Cursor c(t);
    Tensor x = c.next();
    const auto norm = [&](const Tensor& of) {
      const Tensor &w = c.next(), &b = c.next();
      return naive_layer_norm(of, w, b);
    };
    const Tensor n = norm(x);
    const auto projected = [&] { return apart(at::linear(n, c.next()), h); };
    const Tensor q = projected(), k = projected(), v = projected();
    x = x + c.linear(together(naive_attention(q, k, v, false)));
    const Tensor hidden = at::gelu(c.linear(norm(x)));
    return Tensors{x + c.linear(hidden)};
  });
}

Network optimised(const Shape& shape) {
  return prepared(layers_of(shape), "naive_block", [h = shape["h"]](const Tensors& t) {
    return [h, qkv = joined(t, 3), t](const Tensor& given) {
      const int64_t d = given.size(-1);
      const auto parts = at::linear(at::layer_norm(given, {d}, t[1], t[2], 1e-5), qkv).chunk(3, -1);
      const Tensor y = at::scaled_dot_product_attention(apart(parts[0], h), apart(parts[1], h),
                                                        apart(parts[2], h));
      const Tensor x = given + at::linear(together(y), t[6], t[7]);
      const Tensor up = at::linear(at::layer_norm(x, {d}, t[8], t[9], 1e-5), t[10], t[11]);
      return x + at::linear(at::gelu(up), t[12], t[13]);
    };
  });
}

Target target() {
  Target t = component("naive_block", "Transformer block, every step an operator",
                       "x += mha(norm(x)), x += W2 gelu(W1 norm(x)),  NBTD -> NBTD", naive,
                       optimised, "B=8 T=512 D=256 h=8", "B=2 T=8 D=16 h=2");
  t.axes.push_back({"h", "heads of attention"});
  t.flops = [](const Shape& s) { return transformer_flops(s, 12); };
  t.tolerance = {{at::kFloat, 2e-4}, {at::kDouble, 1e-10}};
  t.refusals = {{"B=1 T=4 D=6 h=4", "[naive_block] h: got 4, expected a divisor of D=6; try h=1"}};
  t.oracle = std::string(kNaiveOracle) + R"(
norm = lambda name, x: load(nn.LayerNorm(a.D), name + '.')(x)
x = t['x'] + mha(norm('n1', t['x']))
y = x + linear('down')(nn.functional.gelu(linear('up')(norm('n2', x))))
)";
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::naive_block_target
