// batchnorm3d: y = (x - mean) / sqrt(var + eps) * weight + bias, per channel
// shapes: x [N,B,C,D,H,W], weight bias running_mean running_var [N,C] -> y [N,B,C,D,H,W]
// source: torch.nn.BatchNorm3d
#include "primitives/norm/batchnorm_common.h"

namespace wide::batchnorm3d_target {
namespace {

Target target() {
  Target t = batchnorm::target("batchnorm3d", {"D", "H", "W"}, {5});
  t.formula = "y = (x - mean) / sqrt(var + eps) * w + b,  NBCDHW, NC -> NBCDHW";
  t.source = "torch.nn.BatchNorm3d";
  const auto volume = [](int64_t b, int64_t c, int64_t d) {
    return Shape{{"B", b}, {"C", c}, {"D", d}, {"H", d}, {"W", d}};
  };
  t.sweeps["quick"] = {quick_n(), batchnorm::both_modes({volume(8, 64, 16)})};
  t.sweeps["full"] = {full_n(), batchnorm::both_modes({volume(8, 64, 16)})};
  t.sweeps["ci"] = {{4, 16}, batchnorm::both_modes({volume(4, 16, 6)})};
  t.odd_shapes = {"B=1 C=3 D=1 H=1 W=1", "B=2 C=5 D=2 H=3 W=1 train=1"};
  t.refusals = {{"B=1 C=4 D=1 H=1 W=1 train=1",
                 "[batchnorm3d] B: got one value per channel, expected more in training; try B=2"},
                {"B=1 C=4 D=0 H=1 W=1", "[batchnorm3d] D: got 0, expected at least 1; try D=1"}};
  return t;
}

[[maybe_unused]] const bool fold =
    add_fold({"batchnorm into conv3d", "conv3d", "batchnorm3d", batchnorm::into_convolution});
WIDE_TARGET(target);

}  // namespace
}  // namespace wide::batchnorm3d_target
