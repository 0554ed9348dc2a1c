// batchnorm2d: y = (x - mean) / sqrt(var + eps) * weight + bias, per channel
// shapes: x [N,B,C,H,W], weight bias running_mean running_var [N,C] -> y [N,B,C,H,W]
// source: torch.nn.BatchNorm2d
#include "primitives/norm/batchnorm_common.h"

namespace wide::batchnorm2d_target {
namespace {

Target target() {
  Target t = batchnorm::target("batchnorm2d", {"H", "W"}, {4});
  t.formula = "y = (x - mean) / sqrt(var + eps) * w + b,  NBCHW, NC -> NBCHW";
  t.source = "torch.nn.BatchNorm2d";
  t.sweeps["quick"] = {quick_n(), batchnorm::both_modes({"B=8 C=64 H=32 W=32"})};
  std::vector<Shape> full;
  for (const int64_t b : {4, 8, 16, 32})
    for (const int64_t c : {32, 64, 128, 256})
      for (const int64_t h : {16, 32, 56}) full.push_back({{"B", b}, {"C", c}, {"H", h}, {"W", h}});
  t.sweeps["full"] = {full_n_100(), batchnorm::both_modes(full)};
  t.sweeps["ci"] = {{4, 16}, batchnorm::both_modes({"B=4 C=32 H=16 W=16"})};
  t.odd_shapes = {"B=1 C=3 H=1 W=1", "B=3 C=5 H=3 W=2 train=1"};
  t.refusals = {{"B=1 C=4 H=1 W=1 train=1",
                 "[batchnorm2d] B: got one value per channel, expected more in training; try B=2"}};
  return t;
}

[[maybe_unused]] const bool fold =
    add_fold({"batchnorm into conv2d", "conv2d", "batchnorm2d", batchnorm::into_convolution});
WIDE_TARGET(target);

}  // namespace
}  // namespace wide::batchnorm2d_target
