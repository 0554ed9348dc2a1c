// language_model: the mean cross entropy of a decoder-only transformer, pre-norm, with rotary
// positions, RMSNorm, SwiGLU and a head of its own
// shapes: ids [N,B,T], next [N,B,T] -> loss [N]
// source: the five sizes of a course on language models (small to 2.7B)
#include "blocks/naive.h"

namespace wide::language_model_target {
namespace {

struct Width {
  int64_t d, hidden, layers, heads;
};
constexpr Width kSizes[] = {{768, 3072, 12, 12},
                            {1024, 4096, 24, 16},
                            {1280, 5120, 36, 20},
                            {1600, 6400, 48, 25},
                            {2560, 10240, 32, 32}};
constexpr int64_t kVocabulary = 10000;

/// The sizes that a shape gives, or those of the model size that it names.
Width width_of(const Shape& shape) {
  constexpr auto kCount = static_cast<int64_t>(std::size(kSizes));
  const int64_t size = shape.get("size", 0);
  if (size < 0 || size > kCount)
    fail("[language_model] size: got {}, expected 1 to {}, or 0 with D, F, L and h; try size=1",
         size, kCount);
  if (size == 0) return {shape["D"], shape["F"], shape["L"], shape["h"]};
  const Width& own = kSizes[size - 1];
  return {shape.get("D", own.d), shape.get("F", own.hidden), shape.get("L", own.layers),
          shape.get("h", own.heads)};
}

Tensor swiglu(const Tensor& x, const Tensor& gate, const Tensor& up, const Tensor& down) {
  return at::linear(at::silu(at::linear(x, gate)) * at::linear(x, up), down);
}

/// x `[B,h,T,d]`, whose neighbouring channels are rotated as pairs; cos and sin `[T,d/2]`.
Tensor turned(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const Tensor pairs = x.unflatten(-1, {-1, 2}), a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  return at::stack({a * cos - b * sin, a * sin + b * cos}, -1).flatten(-2);
}

Network network(const Shape& shape) {
  at_least_where_given("language_model", shape, {"D", "F", "L", "h", "V"}, 1);
  const Width width = width_of(shape);
  const int64_t d = width.d, hidden = width.hidden, count = width.layers, h = width.heads;
  const int64_t v = shape.get("V", kVocabulary), length = shape["T"];
  if (d % h != 0 || d / h % 2 != 0)
    fail("[language_model] h: got {}, expected heads of an even number of channels of D={}; try {}",
         h, d, d % 2 == 0 ? "h=1" : "an even D");
  Layers layers;
  const auto ids = [&](const char* name) {
    layers.tensors.push_back(input(name, {shape["B"], length}, Fill::integers, double(v)));
  };
  const auto gain = [&](const std::string& name) {
    layers.tensors.push_back(parameter(name + ".weight", {d}, 1.0, Fill::near_one));
  };
  const auto weight = [&](const std::string& name, int64_t in, int64_t out) {
    layers.tensors.push_back(
        parameter(name + ".weight", {out, in}, std::sqrt(2.0 / double(in + out))));
  };
  ids("ids");
  ids("next");
  layers.tensors.push_back(parameter("embedding.weight", {v, d}, 1.0));
  for (int64_t i = 0; i < count; ++i) {
    const std::string at = fmt::format("layers.{}.", i);
    gain(at + "norm1");
    for (const char* name : {"q", "k", "v", "out"}) weight(at + name, d, d);
    gain(at + "norm2");
    weight(at + "gate", d, hidden);
    weight(at + "up", d, hidden);
    weight(at + "down", hidden, d);
  }
  gain("norm");
  weight("head", d, v);
  return layers.network("language_model", [h, count, d](const Tensors& t) {
    Cursor c(t);
    const Tensor words = c.next(), next = c.next();
    Tensor x = at::embedding(c.next(), words);
    const int64_t steps = words.size(1), depth = d / h;
    const auto options = x.options().requires_grad(false);
    const Tensor rate = at::pow(10000.0, at::arange(0, depth, 2, options) / -double(depth));
    const Tensor angles = at::arange(steps, options).unsqueeze(1) * rate;
    const Tensor cos = at::cos(angles), sin = at::sin(angles);
    const auto norm = [&](const Tensor& of) { return at::rms_norm(of, {d}, c.next(), 1e-5); };
    for (int64_t i = 0; i < count; ++i) {
      const Tensor y = norm(x);
      const auto heads = [&] {
        return at::linear(y, c.next()).unflatten(-1, {h, depth}).transpose(1, 2);
      };
      const Tensor q = turned(heads(), cos, sin), k = turned(heads(), cos, sin), values = heads();
      const Tensor a = naive_attention(q, k, values, /*causal=*/true);
      x = x + at::linear(a.transpose(1, 2).flatten(-2), c.next());
      const Tensor z = norm(x), gate = c.next(), up = c.next();
      x = x + swiglu(z, gate, up, c.next());
    }
    const Tensor last = norm(x), logits = at::linear(last, c.next());
    return Tensors{at::cross_entropy_loss(logits.flatten(0, 1),
                                          next.clone(at::MemoryFormat::Contiguous).flatten())};
  });
}

Target target() {
  Target t;
  t.name = "language_model";
  t.kind = Kind::model;
  t.family = "model";
  t.summary = "Loss of a decoder-only transformer";
  t.formula = "pre-norm, RoPE, RMSNorm, SwiGLU, untied head,  NBT, NBT -> N";
  t.source = "courses on language models; sizes small to 2.7B";
  t.network = network;
  t.axes = axes({"B", "T"},
                {{"size", "1 small, 2 medium, 3 large, 4 xl, 5 2.7B; 0: as D, F, L and h say", 0},
                 {"D", "features", {}, "that of the size"},
                 {"F", "features between the layers of SwiGLU", {}, "that of the size"},
                 {"L", "blocks", {}, "that of the size"},
                 {"h", "heads of attention", {}, "that of the size"},
                 {"V", "words", kVocabulary}});
  const Shape small{"B=4 T=64 D=64 F=192 L=2 h=4 V=1000"};
  t.sweeps["suite"] = {{1},
                       grid({{"B", {4}}, {"T", {128, 256, 512, 1024}}, {"size", {1, 2, 3, 4, 5}}})};
  t.sweeps["quick"] = {{8}, {small}};
  t.sweeps["full"] = {{2, 4, 8, 16}, {small}};
  t.sweeps["ci"] = {{4}, {"B=2 T=6 D=8 F=12 L=1 h=2 V=11"}};
  t.flops = [](const Shape& s) {
    const Width w = width_of(s);
    const double tokens = double(s["B"] * s["T"]), width = double(w.d);
    const double block =
        8 * width * width + 6 * width * double(w.hidden) + 4 * double(s["T"]) * width;
    return tokens * (double(w.layers) * block + 2 * width * double(s.get("V", kVocabulary)));
  };
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-9}};
  t.tolerance_reason = "every layer adds the rounding of its own sums";
  t.refusals = {{"B=1 T=4 size=6",
                 "[language_model] size: got 6, expected 1 to 5, or 0 with D, F, L and h; try "
                 "size=1"},
                {"B=1 T=4 D=6 F=4 L=1 h=2",
                 "[language_model] h: got 2, expected heads of an even number of channels of D=6; "
                 "try h=1"}};
  t.optimizer = DefaultOf::training;
  t.may_not_fit = true;
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::language_model_target
