// attention_block: y = Wo softmax(R(q) R(k)ᵀ / sqrt(d)) v + bo, q k v = Wqkv x + b, R rotates
// shapes: x [N,B,T,D], rope [N,T,d] -> y [N,B,T,D]; R turns channels (2k, 2k+1) of a head together
// source: the attention half of a transformer layer with rotary positions
#include "blocks/streams.h"

namespace wide::attention_block_target {
namespace {

Network network(const Shape& shape) {
  const bool rope = check_heads("attention_block", shape);
  const int64_t d = shape["D"], h = shape["h"];
  Layers layers;
  layers.input("x", {shape["B"], shape["T"], d});
  rope_input(layers, shape["T"], d / h, rope);
  layers.linear("qkv", d, 3 * d);
  layers.linear("out", d, d);
  return layers.network("attention_block", [h, rope](const Tensors& t) {
    Cursor c(t);
    const Tensor x = c.next(), angles = rope ? c.next() : Tensor();
    const Heads heads = split_heads(c.linear(x), h);
    return Tensors{c.linear(attend(heads, angles))};
  });
}

Target target() {
  Target t;
  t.name = "attention_block";
  t.kind = Kind::block;
  t.family = "attention";
  t.summary = "QKV linear, rotary positions, attention, output linear";
  t.formula = "y = Wo attention(R(q), R(k), v),  NBTD, NTd -> NBTD";
  t.source = "transformer attention layer; RoPE on neighbouring channels";
  t.network = network;
  t.axes = axes({"B", "T", "D", "h"}, {{"rope", "0: positions are not rotated", 1}});
  const Shape quick{"B=4 T=128 D=256 h=4"};
  t.sweeps["quick"] = {quick_n(), {quick}};
  t.sweeps["full"] = {{2, 4, 8, 16, 32, 64}, {quick}};
  t.sweeps["ci"] = {{4, 16}, {"B=2 T=16 D=32 h=2"}};
  t.flops = [](const Shape& s) { return transformer_flops(s, 4); };
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-11}};
  t.tolerance_reason = "two linear layers around a softmax over T terms";
  t.odd_shapes = {"B=3 T=5 D=6 h=3", "B=1 T=1 D=5 h=5 rope=0"};
  t.refusals = {
      {"B=1 T=4 D=6 h=4", "[attention_block] h: got 4, expected a divisor of D=6; try h=1"},
      {"B=1 T=4 D=6 h=2",
       "[attention_block] D/h: got 3, expected an even number of channels to rotate; try "
       "rope=0"}};
  t.oracle = std::string(kStreamsOracle) + R"(
y = linear('out')(attend(*heads(linear('qkv')(t['x']), a.h), t.get('rope')))
)";
  t.parts = attention_parts();
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::attention_block_target
