// convtranspose2d: y[b,o,p] = bias[o] + sum of w[c,o,t] x[b,c,q] over channels c and taps t with
//   p = q*stride + t*dilation
// shapes: x [N,B,C,H,W], w [N,C,O/groups,k,k], bias [N,O] -> y [N,B,O,H',W']
// source: torch.nn.ConvTranspose2d
#include "primitives/convolution/convolution_common.h"

namespace wide::convtranspose2d_target {
namespace {

Target target() {
  Target t = convolution::target({"convtranspose2d", {"H", "W"}, true});
  const auto doubled = [](int64_t b, int64_t c, int64_t side) {
    return Shape{{"B", b},       {"C", c},    {"k", 4},   {"stride", 2},
                 {"padding", 1}, {"H", side}, {"W", side}};
  };
  t.sweeps["quick"] = {quick_n(), {doubled(8, 64, 16)}};
  t.sweeps["full"] = {full_n(), {doubled(8, 64, 16)}};
  t.sweeps["ci"] = {{4, 8}, {doubled(4, 16, 8)}};
  t.tolerance = {{at::kFloat, 2e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "sums of C k k / stride² products in an order of the library's choice";
  t.odd_shapes = {
      "B=1 C=1 k=1 H=1 W=1", "B=2 C=4 k=3 H=3 W=5 O=6 groups=2 stride=2 output_padding=1",
      "B=1 C=2 k=3 H=4 W=3 O=5 dilation=2 biases=0", "B=1 C=3 k=2 H=2 W=9 stride=3 padding=0"};
  t.refusals = {
      {"B=1 C=4 k=3 H=8 W=8 groups=3",
       "[convtranspose2d] groups: got 3, expected a divisor of C=4 and O=4; try groups=1"},
      {"B=1 C=2 k=3 H=8 W=8 same=1",
       "[convtranspose2d] same: got stride=1, expected an ordinary convolution of stride 1; try "
       "same=0"}};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::convtranspose2d_target
