// naive_attention: y = softmax(q kᵀ / sqrt(D)) v, in products with the scores in memory
// shapes: q k v [N,B,T,D] -> y [N,B,T,D]
// source: attention as in benchmarks of courses on language models
#include "blocks/naive.h"

namespace wide::naive_attention_target {
namespace {

Network network(const Shape& shape) {
  const bool causal = shape.get("causal", 0) != 0;
  Layers layers;
  for (const char* name : {"q", "k", "v"}) layers.input(name, {shape["B"], shape["T"], shape["D"]});
  return layers.network("naive_attention", [causal](const Tensors& t) {
    return Tensors{naive_attention(t[0], t[1], t[2], causal)};
  });
}

Target target() {
  Target t;
  t.name = "naive_attention";
  t.kind = Kind::block;
  t.family = "naive";
  t.summary = "Attention in products, the scores in memory";
  t.formula = "y = softmax(q kᵀ / sqrt(D)) v,  NBTD, NBTD, NBTD -> NBTD";
  t.source = "courses on language models";
  t.network = network;
  t.axes = axes({"B", "T", "D"}, {{"causal", "1: causal, no step attends to later ones", 0}});
  t.sweeps["suite"] = {{1},
                       grid({{"B", {8}},
                             {"T", {256, 1024, 4096, 8192, 16384}},
                             {"D", {16, 32, 64, 128}},
                             {"causal", {0, 1}}})};
  t.sweeps["quick"] = {{4, 8}, {"B=4 T=256 D=64"}};
  t.sweeps["full"] = {{2, 4, 8, 16}, grid({{"B", {4}}, {"T", {256, 1024}}, {"D", {16, 64}}})};
  t.sweeps["ci"] = {{4}, {"B=2 T=16 D=8"}};
  t.flops = [](const Shape& s) { return 4.0 * product(s, {"B", "T", "T", "D"}); };
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "a softmax over T terms between two products";
  t.odd_shapes = {"B=1 T=1 D=3", "B=3 T=7 D=5 causal=1"};
  t.refusals = {{"B=1 T=0 D=4", "[naive_attention] T: got 0, expected at least 1; try T=1"}};
  t.oracle =
      "y = nn.functional.scaled_dot_product_attention(t['q'], t['k'], t['v'], "
      "is_causal=bool(a.causal))";
  t.parts = attention_parts();
  t.may_not_fit = true;
  t.samples = "B";
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::naive_attention_target
