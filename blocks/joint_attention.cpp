// joint_attention: q k v of two streams by weights of their own, joined (text first), rotated,
// attended to, split again; an output linear per stream
// shapes: text [N,B,Tt,D], image [N,B,Ti,D], rope [N,Tt+Ti,d] -> [N,B,Tt,D], [N,B,Ti,D]
// source: FLUX and Stable Diffusion 3 (MM-DiT)
#include "blocks/streams.h"

namespace wide::joint_attention_target {
namespace {

Network network(const Shape& shape) {
  const bool rope = check_heads("joint_attention", shape);
  const int64_t b = shape["B"], d = shape["D"], h = shape["h"], tt = shape["Tt"], ti = shape["Ti"];
  Layers layers;
  layers.input("text", {b, tt, d});
  layers.input("image", {b, ti, d});
  rope_input(layers, tt + ti, d / h, rope);
  for (const std::string stream : {"text", "image"}) layers.linear(stream + "_qkv", d, 3 * d);
  for (const std::string stream : {"text", "image"}) layers.linear(stream + "_out", d, d);
  return layers.network("joint_attention", [h, rope](const Tensors& t) {
    Cursor c(t);
    const Tensor text = c.next(), image = c.next(), angles = rope ? c.next() : Tensor();
    const Heads of_text = split_heads(c.linear(text), h);
    const Heads of_image = split_heads(c.linear(image), h);
    const auto [to_text, to_image] = attend_jointly(of_text, of_image, angles);
    const Tensor y = c.linear(to_text);
    return Tensors{y, c.linear(to_image)};
  });
}

Target target() {
  Target t;
  t.name = "joint_attention";
  t.kind = Kind::block;
  t.family = "attention";
  t.summary = "Attention over two streams joined, weights per stream";
  t.formula = "t, i = Wo attention(R(q), R(k), v) over [text; image],  NBTD, NBID -> NBTD, NBID";
  t.source = "FLUX, Stable Diffusion 3; RoPE on neighbouring channels of the joined sequence";
  t.network = network;
  t.axes = axes({"B", "Tt", "Ti", "D", "h"}, {{"rope", "0: positions are not rotated", 1}});
  const Shape quick{"B=4 Tt=64 Ti=256 D=256 h=4"};
  t.sweeps["quick"] = {quick_n(), {quick}};
  t.sweeps["full"] = {{2, 4, 8, 16, 32, 64}, {quick}};
  t.sweeps["ci"] = {{4, 16}, {"B=2 Tt=3 Ti=8 D=16 h=2"}};
  t.flops = [](const Shape& s) {
    const double length = double(s["Tt"] + s["Ti"]), b = double(s["B"]), d = double(s["D"]);
    return 8.0 * b * length * d * d + 4.0 * b * length * length * d;
  };
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-11}};
  t.tolerance_reason = "two linear layers around a softmax over Tt + Ti terms";
  t.odd_shapes = {"B=2 Tt=1 Ti=5 D=12 h=3", "B=1 Tt=3 Ti=2 D=3 h=3 rope=0"};
  t.refusals = {
      {"B=1 Tt=2 Ti=2 D=6 h=4", "[joint_attention] h: got 4, expected a divisor of D=6; try h=1"},
      {"B=1 Tt=2 Ti=0 D=4 h=2", "[joint_attention] Ti: got 0, expected at least 1; try Ti=1"}};
  t.oracle = std::string(kStreamsOracle) + R"(
parts = [heads(linear(f'{s}_qkv')(t[s]), a.h) for s in ('text', 'image')]
attended = attend_jointly(parts, t.get('rope'))
y = [linear(f'{s}_out')(x) for s, x in zip(('text', 'image'), attended)]
)";
  t.parts = attention_parts();
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::joint_attention_target
