// lenet: conv-relu-pool twice, two linear layers;  tiny_ts: 1-D convolutions with group norm
// shapes: x [N,B,1,H,W] -> logits [N,B,10];  x [N,B,8,L] -> [N,B,4]
#include "blocks/layers.h"

namespace wide::small_cnn_target {
namespace {

Network lenet(const Shape& shape) {
  const int64_t h = shape["H"], w = shape["W"];
  Layers layers;
  layers.input("x", {shape["B"], 1, h, w});
  layers.convolution("c1", 1, 16, 3, 2, true);
  layers.convolution("c2", 16, 32, 3, 2, true);
  layers.linear("f1", 32 * (h / 4) * (w / 4), 64);
  layers.linear("f2", 64, 10);
  return layers.network("lenet", [](const Tensors& t) {
    Cursor c(t);
    Tensor x = c.next();
    for (int64_t k = 0; k < 2; ++k)
      x = at::max_pool2d(at::relu(c.conv2d(x, 1, 1, true)), {2, 2}, {2, 2});
    x = at::relu(c.linear(x.flatten(1)));
    return Tensors{c.linear(x)};
  });
}

double lenet_flops(const Shape& s) {
  const int64_t h = s["H"], w = s["W"];  // pools drop an odd row: h / 2 is rounded down
  return 2 * double(s["B"]) *
         double(h * w * 16 * 9 + (h / 2) * (w / 2) * 32 * 16 * 9 + 32 * (h / 4) * (w / 4) * 64 +
                64 * 10);
}

Network tiny_ts(const Shape& shape) {
  Layers layers;
  layers.input("x", {shape["B"], 8, shape["L"]});
  layers.convolution("c1", 8, 32, 5, 1, true);
  layers.norm("g", 32);
  layers.convolution("c2", 32, 32, 5, 1, true);
  layers.linear("f", 32, 4);
  return layers.network("tiny_ts", [](const Tensors& t) {
    Cursor c(t);
    Tensor x = c.next();
    x = c.conv1d(x, 2);
    x = at::silu(c.group_norm(x, 4));
    x = at::silu(c.conv1d(x, 2));
    return Tensors{c.linear(x.mean({-1}))};
  });
}

Target lenet_target() {
  Target t = model_target("lenet", "Small image classifier", "NB1HW -> NB(10)", lenet,
                          {{32}, {"B=8 H=28 W=28"}});
  t.axes = {{"B", "samples"}, {"H", "height", {}, {}, 4}, {"W", "width", {}, {}, 4}};
  t.sweeps["ci"] = {{4, 16}, {"B=2 H=12 W=12"}};
  t.flops = lenet_flops;
  t.refusals = {{"B=1 H=2 W=28", "[lenet] H: got 2, expected at least 4; try H=4"}};
  return t;
}

Target series_target() {
  Target t = model_target("tiny_ts", "1-D convolutions with group norm over a time series",
                          "NB8L -> NB4", tiny_ts, {{32}, {"B=8 L=64"}});
  t.axes = {{"B", "samples"}, {"L", "length of a series"}};
  t.sweeps["ci"] = {{4, 16}, {"B=2 L=16"}};
  t.flops = [](const Shape& s) {
    return double(s["B"]) * (2.0 * double(s["L"]) * 32 * 5 * (8 + 32) + 2 * 32 * 4);
  };
  t.refusals = {{"B=1 L=0", "[tiny_ts] L: got 0, expected at least 1; try L=1"}};
  return t;
}

[[maybe_unused]] const bool registered[] = {add_target(lenet_target(), __FILE__),
                                            add_target(series_target(), __FILE__)};

}  // namespace
}  // namespace wide::small_cnn_target
