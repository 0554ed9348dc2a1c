// double_stream_block: per stream s1 c1 g1 s2 c2 g2 = chunk(Wm silu(emb)), x += g1 A(M(x, s1, c1)),
// x += g2 MLP(M(x, s2, c2)); M(x, s, c) = LN(x) (1 + c) + s, A attends over both streams joined
// shapes: text [N,B,Tt,D], image [N,B,Ti,D], emb [N,B,E], rope [N,Tt+Ti,d] -> text, image alike
// source: FLUX, DoubleStreamBlock (without its norms of q and k)
#include "blocks/streams.h"

namespace wide::double_stream_block_target {
namespace {

/// The weights of one stream, in the order they are declared.
struct Stream {
  Tensor x;
  std::vector<Tensor> modulation;  // shift, scale, gate of the attention, then of the MLP
  Heads heads;
};

void declare(Layers& layers, const std::string& stream, int64_t d, int64_t e) {
  layers.linear(stream + "_mod", e, 6 * d);
  layers.linear(stream + "_qkv", d, 3 * d);
}

void declare_end(Layers& layers, const std::string& stream, int64_t d) {
  layers.linear(stream + "_out", d, d);
  layers.linear(stream + "_mlp.0", d, 4 * d);
  layers.linear(stream + "_mlp.2", 4 * d, d);
}

Stream begin(Cursor& c, const Tensor& x, const Tensor& emb, int64_t h) {
  Stream s{x, c.linear(emb).chunk(6, -1), {}};
  s.heads = split_heads(c.linear(modulated(x, s.modulation[0], s.modulation[1])), h);
  return s;
}

Tensor end(Cursor& c, const Stream& s, const Tensor& attended) {
  const Tensor x = gated_residual(s.x, s.modulation[2], c.linear(attended));
  const Tensor hidden = at::gelu(c.linear(modulated(x, s.modulation[3], s.modulation[4])), "tanh");
  return gated_residual(x, s.modulation[5], c.linear(hidden));
}

Network network(const Shape& shape) {
  const bool rope = check_heads("double_stream_block", shape);
  const int64_t b = shape["B"], d = shape["D"], h = shape["h"], tt = shape["Tt"], ti = shape["Ti"];
  Layers layers;
  layers.input("text", {b, tt, d});
  layers.input("image", {b, ti, d});
  layers.input("emb", {b, shape["E"]});
  rope_input(layers, tt + ti, d / h, rope);
  for (const std::string stream : {"text", "image"}) declare(layers, stream, d, shape["E"]);
  for (const std::string stream : {"text", "image"}) declare_end(layers, stream, d);
  return layers.network("double_stream_block", [h, rope](const Tensors& t) {
    Cursor c(t);
    const Tensor x = c.next(), y = c.next(), emb = at::silu(c.next());
    const Tensor angles = rope ? c.next() : Tensor();
    const Stream text = begin(c, x, emb, h);
    const Stream image = begin(c, y, emb, h);
    const auto [to_text, to_image] = attend_jointly(text.heads, image.heads, angles);
    const Tensor text_out = end(c, text, to_text);
    return Tensors{text_out, end(c, image, to_image)};
  });
}

Target target() {
  Target t;
  t.name = "double_stream_block";
  t.kind = Kind::block;
  t.family = "attention";
  t.summary = "Two streams with weights of their own that attend to each other";
  t.formula = "x += g1 A(M(x)), x += g2 MLP(M(x)) per stream,  NBTD, NBID, NBE -> NBTD, NBID";
  t.source = "FLUX, DoubleStreamBlock";
  t.network = network;
  t.axes = axes({"B", "Tt", "Ti", "D", "h", "E"}, {{"rope", "0: positions are not rotated", 1}});
  const Shape quick{"B=4 Tt=64 Ti=256 D=256 h=4 E=256"};
  t.sweeps["quick"] = {{4, 8}, {quick}};
  t.sweeps["full"] = {{2, 4, 8, 16, 32}, {quick}};
  t.sweeps["ci"] = {{4, 8}, {"B=2 Tt=3 Ti=6 D=16 h=2 E=8"}};
  t.flops = [](const Shape& s) {
    const double length = double(s["Tt"] + s["Ti"]), b = double(s["B"]), d = double(s["D"]);
    return 24.0 * b * length * d * d + 4.0 * b * length * length * d +
           24.0 * b * double(s["E"]) * d;
  };
  t.tolerance = {{at::kFloat, 2e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "eight linear layers and a softmax in a row";
  t.odd_shapes = {"B=1 Tt=2 Ti=3 D=6 h=1 E=5 rope=0"};
  t.refusals = {{"B=1 Tt=2 Ti=2 D=6 h=4 E=2",
                 "[double_stream_block] h: got 4, expected a divisor of D=6; try h=1"},
                {"B=1 Tt=2 Ti=2 D=4 h=2 E=0",
                 "[double_stream_block] E: got 0, expected at least 1; try E=1"}};
  t.oracle = std::string(kStreamsOracle) + R"(
modulation, parts, y = {}, [], []
for s in ('text', 'image'):
    modulation[s] = linear(f'{s}_mod')(nn.SiLU()(t['emb'])).chunk(6, -1)
    parts.append(heads(linear(f'{s}_qkv')(modulate(t[s], *modulation[s][:2])), a.h))
for s, attended in zip(('text', 'image'), attend_jointly(parts, t.get('rope'))):
    _, _, gate1, shift, scale, gate2 = modulation[s]
    x = t[s] + gate1[:, None] * linear(f'{s}_out')(attended)
    mlp = nn.Sequential(linear(f'{s}_mlp.0'), nn.GELU('tanh'), linear(f'{s}_mlp.2'))
    y.append(x + gate2[:, None] * mlp(modulate(x, shift, scale)))
)";
  t.parts = attention_parts();
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::double_stream_block_target
