// conv3d: y[b,o,p] = bias[o] + sum over channels and taps of w[o,c,t] x[b,c,p*stride + t*dilation]
// shapes: x [N,B,C,D,H,W], w [N,O,C/groups,k,k,k], bias [N,O] -> y [N,B,O,D',H',W']
// source: torch.nn.Conv3d
#include "primitives/convolution/convolution_common.h"

namespace wide::conv3d_target {
namespace {

Target target() {
  Target t = convolution::target({"conv3d", {"D", "H", "W"}});
  const auto cube = [](int64_t b, int64_t c, int64_t side) {
    return Shape{{"B", b}, {"C", c}, {"k", 3}, {"D", side}, {"H", side}, {"W", side}};
  };
  t.sweeps["quick"] = {{4, 8, 16}, {cube(4, 32, 16)}};
  Sweep full{full_n(), {}};
  for (const int64_t b : {2, 4, 8})
    for (const int64_t c : {16, 32, 64})
      for (const int64_t side : {8, 16, 32}) full.shapes.push_back(cube(b, c, side));
  t.sweeps["full"] = full;
  t.sweeps["ci"] = {{4, 16}, {cube(2, 16, 8)}};
  t.tolerance = {{at::kFloat, 2e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "sums of C k k k products in an order of the library's choice";
  t.odd_shapes = {"B=1 C=1 k=1 D=1 H=1 W=1",
                  "B=2 C=4 k=3 D=3 H=5 W=4 O=6 groups=2 stride=2",
                  "B=1 C=2 k=2 D=3 H=4 W=5 dilation=2 biases=0",
                  "B=1 C=2 k=2 D=2 H=3 W=2 same=1",
                  "B=1 C=2 k=3 D=2 H=3 W=4 padding_mode=1",
                  "B=1 C=2 k=3 D=1 H=3 W=2 padding_mode=2",
                  "B=1 C=2 k=3 D=1 H=3 W=2 padding_mode=3"};
  t.refusals = {
      {"B=1 C=4 k=3 D=4 H=4 W=4 groups=3",
       "[conv3d] groups: got 3, expected a divisor of C=4 and O=4; try groups=1"},
      {"B=1 C=4 k=3 D=2 H=4 W=4 padding=0",
       "[conv3d] D: got 2, expected at least 3; try a smaller k"},
      {"B=1 C=1 k=5 D=4 H=1 W=4 padding_mode=3",
       "[conv3d] H: got 1, expected at least 2 for circular padding; try padding_mode=0"}};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::conv3d_target
