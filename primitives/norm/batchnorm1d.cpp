// batchnorm1d: y = (x - mean) / sqrt(var + eps) * weight + bias, per channel
// shapes: x [N,B,C] or [N,B,C,L], weight bias running_mean running_var [N,C] -> y as x
// source: torch.nn.BatchNorm1d
#include "primitives/norm/batchnorm_common.h"

namespace wide::batchnorm1d_target {
namespace {

Target target() {
  Target t = batchnorm::target("batchnorm1d", {"L"}, {2, 3});
  t.formula = "y = (x - mean) / sqrt(var + eps) * w + b,  NBC or NBCL, NC -> as x";
  t.source = "torch.nn.BatchNorm1d";
  t.sweeps["quick"] = {quick_n(), batchnorm::both_modes({"B=8 C=64 L=256"})};
  t.sweeps["full"] = {
      full_n_100(),
      batchnorm::both_modes(
          grid({{"B", {4, 8, 16, 32}}, {"C", {32, 64, 128, 256}}, {"L", {64, 256, 1024}}}))};
  t.sweeps["ci"] = {{4, 16}, batchnorm::both_modes({"B=4 C=32 L=64"})};
  t.odd_shapes = {"B=3 C=5", "B=3 C=17 train=1", "B=2 C=3 L=7 train=1 affine=0",
                  "B=2 C=3 L=5 track=0", "B=5 C=3 L=2 train=1 batches=3"};
  t.refusals = {{"B=1 C=4 train=1",
                 "[batchnorm1d] B: got one value per channel, expected more in training; try B=2"},
                {"B=2 C=4 L=0", "[batchnorm1d] L: got 0, expected at least 1; try L=1"}};
  return t;
}

[[maybe_unused]] const bool fold =
    add_fold({"batchnorm into conv1d", "conv1d", "batchnorm1d", batchnorm::into_convolution});
WIDE_TARGET(target);

}  // namespace
}  // namespace wide::batchnorm1d_target
