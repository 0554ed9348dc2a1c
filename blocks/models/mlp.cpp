// mlp: Linear D->2D, ReLU, Linear 2D->D; deep_mlp: `layers` times (Linear D->D, GELU)
// shapes: x [N,B,D] -> y [N,B,D]
#include "blocks/layers.h"

namespace wide::mlp_target {
namespace {

Network mlp(const Shape& shape) {
  const int64_t d = shape["D"];
  Layers layers;
  layers.input("x", {shape["B"], d});
  layers.linear("fc1", d, 2 * d);
  layers.linear("fc2", 2 * d, d);
  return layers.network("mlp", [](const Tensors& t) {
    Cursor c(t);
    const Tensor h = at::relu(c.linear(c.next()));
    return Tensors{c.linear(h)};
  });
}

Network deep_mlp(const Shape& shape) {
  const int64_t d = shape["D"], count = shape["layers"];
  Layers layers;
  layers.input("x", {shape["B"], d});
  for (int64_t l = 0; l < count; ++l) layers.linear(fmt::format("layers.{}", l), d, d);
  return layers.network("deep_mlp", [count](const Tensors& t) {
    Cursor c(t);
    Tensor x = c.next();
    for (int64_t l = 0; l < count; ++l) x = at::gelu(c.linear(x));
    return Tensors{x};
  });
}

Target shallow() {
  Target t = model_target("mlp", "Two linear layers with a ReLU", "W2 relu(W1 x),  NBD -> NBD", mlp,
                          {{100}, {"B=32 D=64"}});
  t.axes = axes({"B", "D"});
  t.sweeps["ci"] = {{4, 16}, {"B=4 D=16"}};
  t.sweeps["published"] = {{20}, {"B=32 D=64"}};
  t.flops = [](const Shape& s) { return 8.0 * product(s, {"B", "D", "D"}); };
  t.refusals = {{"B=1 D=0", "[mlp] D: got 0, expected at least 1; try D=1"}};
  return t;
}

Target deep() {
  Target t =
      model_target("deep_mlp", "Square linear layers with GELU", "gelu(W x) repeated,  NBD -> NBD",
                   deep_mlp, {{20}, {"B=32 D=64 layers=4"}});
  t.axes = axes({"B", "D"}, {{"layers", "layers"}});
  t.sweeps["ci"] = {{4, 16}, {"B=4 D=16 layers=3"}};
  t.sweeps["published"] = {{20}, {"B=32 D=64 layers=8"}};
  t.flops = [](const Shape& s) { return 2.0 * product(s, {"B", "D", "D", "layers"}); };
  t.refusals = {
      {"B=1 D=2 layers=0", "[deep_mlp] layers: got 0, expected at least 1; try layers=1"}};
  return t;
}

[[maybe_unused]] const bool registered[] = {add_target(shallow(), __FILE__),
                                            add_target(deep(), __FILE__)};

}  // namespace
}  // namespace wide::mlp_target
