// resblock: relu(x + bn(conv(relu(bn(conv(x))))));  resnet18: torchvision's, with its names
// shapes: x [N,B,C,H,W] -> [N,B,C,H,W];  x [N,B,3,H,W] -> logits [N,B,classes]
#include "blocks/layers.h"

namespace wide::resnet_target {
namespace {

Network resblock(const Shape& shape) {
  const int64_t c = shape["C"];
  Layers layers;
  layers.input("x", {shape["B"], c, shape["H"], shape["W"]});
  for (const char* k : {"1", "2"}) {
    layers.convolution(fmt::format("c{}", k), c, c, 3, 2, true);
    layers.norm(fmt::format("b{}", k), c, true);
  }
  return layers.network("resblock", [](const Tensors& t) {
    Cursor cursor(t);
    const Tensor x = cursor.next();
    Tensor h = cursor.conv2d(x, 1, 1, true);
    h = at::relu(cursor.batch_norm(h));
    h = cursor.conv2d(h, 1, 1, true);
    return Tensors{at::relu(x + cursor.batch_norm(h))};
  });
}

constexpr int64_t kWidths[] = {64, 128, 256, 512};

bool downsamples(int64_t stage, int64_t block) { return block == 0 && stage > 0; }

Network resnet18(const Shape& shape) {
  Layers layers;
  layers.input("x", {shape["B"], 3, shape["H"], shape["W"]});
  layers.convolution("conv1", 3, 64, 7, 2, false);
  layers.norm("bn1", 64, true);
  int64_t width = 64;
  for (int64_t stage = 0; stage < 4; ++stage) {
    for (int64_t block = 0; block < 2; ++block) {
      const std::string name = fmt::format("layer{}.{}.", stage + 1, block);
      const int64_t out = kWidths[stage];
      layers.convolution(name + "conv1", width, out, 3, 2, false);
      layers.norm(name + "bn1", out, true);
      layers.convolution(name + "conv2", out, out, 3, 2, false);
      layers.norm(name + "bn2", out, true);
      if (downsamples(stage, block)) {
        layers.convolution(name + "downsample.0", width, out, 1, 2, false);
        layers.norm(name + "downsample.1", out, true);
      }
      width = out;
    }
  }
  layers.linear("fc", 512, shape["classes"]);
  return layers.network("resnet18", [](const Tensors& t) {
    Cursor c(t);
    Tensor x = c.next();
    x = c.conv2d(x, 2, 3, false);
    x = at::relu(c.batch_norm(x));
    x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
    for (int64_t stage = 0; stage < 4; ++stage) {
      for (int64_t block = 0; block < 2; ++block) {
        const bool down = downsamples(stage, block);
        Tensor h = c.conv2d(x, down ? 2 : 1, 1, false);
        h = at::relu(c.batch_norm(h));
        h = c.conv2d(h, 1, 1, false);
        h = c.batch_norm(h);
        if (down) {
          x = c.conv2d(x, 2, 0, false);
          x = c.batch_norm(x);
        }
        x = at::relu(h + x);
      }
    }
    return Tensors{c.linear(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1))};
  });
}

double resnet18_flops(const Shape& s) {
  const auto half = [](int64_t size) { return (size + 1) / 2; };
  int64_t h = half(s["H"]), w = half(s["W"]);
  double sum = 2.0 * double(h * w) * 64 * 3 * 49;
  h = half(h);
  w = half(w);
  int64_t width = 64;
  for (int64_t stage = 0; stage < 4; ++stage) {
    if (stage > 0) {
      h = half(h);
      w = half(w);
    }
    const int64_t out = kWidths[stage];
    const double positions = double(h * w);
    sum += 2.0 * positions * double(out) * 9 * double(width + 3 * out);
    if (stage > 0) sum += 2.0 * positions * double(out * width);
    width = out;
  }
  return double(s["B"]) * (sum + 2.0 * 512 * double(s["classes"]));
}

Target block_target() {
  Target t =
      model_target("resblock", "Residual block: two convolutions with batch norm",
                   "relu(x + f(x)),  NBCHW -> NBCHW", resblock, {{20}, {"B=2 C=64 H=16 W=16"}});
  t.axes = axes({"B", "C", "H", "W"});
  t.sweeps["ci"] = {{4, 16}, {"B=2 C=8 H=8 W=8"}};
  t.sweeps["published"] = {{20}, {"B=8 C=64 H=16 W=16"}};
  t.flops = [](const Shape& s) { return 36.0 * product(s, {"B", "C", "C", "H", "W"}); };
  t.refusals = {{"B=1 C=0 H=4 W=4", "[resblock] C: got 0, expected at least 1; try C=1"}};
  return t;
}

Target network_target() {
  Target t = model_target("resnet18", "ResNet-18 in eval mode", "NB3HW -> NB(classes)", resnet18,
                          {{10}, {"B=1 H=64 W=64 classes=10"}});
  t.axes = axes({"B", "H", "W"}, {{"classes", "classes"}});
  t.sweeps["full"].n = {2, 4, 8, 10, 16, 20, 32};
  t.sweeps["ci"] = {{4}, {"B=1 H=32 W=32 classes=10"}};
  t.sweeps["published"] = {{10}, {"B=8 H=64 W=64 classes=10"}};
  t.flops = resnet18_flops;
  t.refusals = {
      {"B=1 H=32 W=32 classes=0", "[resnet18] classes: got 0, expected at least 1; try classes=1"}};
  return t;
}

[[maybe_unused]] const bool registered[] = {add_target(block_target(), __FILE__),
                                            add_target(network_target(), __FILE__)};

}  // namespace
}  // namespace wide::resnet_target
