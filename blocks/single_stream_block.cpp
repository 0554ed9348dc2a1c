// single_stream_block: s c g = chunk(Wm silu(emb)), m = LN(x) (1 + c) + s, q k v u = W1 m,
// y = x + g W2 [attention(R(q), R(k), v); gelu(u)]
// shapes: x [N,B,T,D], emb [N,B,E], rope [N,T,d] -> y [N,B,T,D]; u has 4 D channels
// source: FLUX, SingleStreamBlock (without its norms of q and k)
#include "blocks/streams.h"

namespace wide::single_stream_block_target {
namespace {

Network network(const Shape& shape) {
  const bool rope = check_heads("single_stream_block", shape);
  const int64_t d = shape["D"], h = shape["h"];
  Layers layers;
  layers.input("x", {shape["B"], shape["T"], d});
  layers.input("emb", {shape["B"], shape["E"]});
  rope_input(layers, shape["T"], d / h, rope);
  layers.linear("modulation", shape["E"], 3 * d);
  layers.linear("linear1", d, 7 * d);
  layers.linear("linear2", 5 * d, d);
  return layers.network("single_stream_block", [h, rope](const Tensors& t) {
    Cursor c(t);
    const Tensor x = c.next(), emb = at::silu(c.next()), angles = rope ? c.next() : Tensor();
    const int64_t dim = x.size(-1);
    const auto m = c.linear(emb).chunk(3, -1);  // shift, scale, gate
    const auto parts = c.linear(modulated(x, m[0], m[1])).split_with_sizes({3 * dim, 4 * dim}, -1);
    const Tensor attended = attend(split_heads(parts[0], h), angles);
    const Tensor y = c.linear(at::cat({attended, at::gelu(parts[1], "tanh")}, -1));
    return Tensors{gated_residual(x, m[2], y)};
  });
}

Target target() {
  Target t;
  t.name = "single_stream_block";
  t.kind = Kind::block;
  t.family = "attention";
  t.summary = "Attention and MLP side by side behind one adaptive norm";
  t.formula = "y = x + g W2 [attention(m); gelu(u(m))],  NBTD, NBE -> NBTD";
  t.source = "FLUX, SingleStreamBlock";
  t.network = network;
  t.axes = axes({"B", "T", "D", "h", "E"}, {{"rope", "0: positions are not rotated", 1}});
  const Shape quick{"B=4 T=320 D=256 h=4 E=256"};
  t.sweeps["quick"] = {{4, 8}, {quick}};
  t.sweeps["full"] = {{2, 4, 8, 16, 32}, {quick}};
  t.sweeps["ci"] = {{4, 8}, {"B=2 T=9 D=16 h=2 E=8"}};
  t.flops = [](const Shape& s) {
    return transformer_flops(s, 12) + 6.0 * product(s, {"B", "E", "D"});
  };
  t.tolerance = {{at::kFloat, 2e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "three linear layers and a softmax in a row";
  t.odd_shapes = {"B=3 T=5 D=4 h=1 E=1 rope=0"};
  t.refusals = {
      {"B=1 T=2 D=6 h=4 E=2", "[single_stream_block] h: got 4, expected a divisor of D=6; try h=1"},
      {"B=1 T=2 D=4 h=2 E=2 rope=2",
       "[single_stream_block] rope: got 2, expected 0 or 1; try rope=1"}};
  t.oracle = std::string(kStreamsOracle) + R"(
shift, scale, gate = linear('modulation')(nn.SiLU()(t['emb'])).chunk(3, -1)
both = linear('linear1')(modulate(t['x'], shift, scale))
attended = attend(*heads(both[..., :3 * a.D], a.h), t.get('rope'))
both = torch.cat([attended, nn.GELU('tanh')(both[..., 3 * a.D:])], -1)
y = t['x'] + gate[:, None] * linear('linear2')(both)
)";
  t.parts = attention_parts();
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::single_stream_block_target
