// conv1d: y[b,o,p] = bias[o] + sum over channels and taps of w[o,c,t] x[b,c,p*stride + t*dilation]
// shapes: x [N,B,C,L], w [N,O,C/groups,k], bias [N,O] -> y [N,B,O,L']
// source: torch.nn.Conv1d
#include "primitives/convolution/convolution_common.h"

namespace wide::conv1d_target {
namespace {

Target target() {
  Target t = convolution::target({"conv1d", {"L"}});
  t.sweeps["quick"] = {quick_n(), {"B=8 C=64 k=3 L=256"}};
  t.sweeps["full"] = {
      full_n(),
      grid({{"B", {8}}, {"C", {32, 64, 128}}, {"k", {1, 3, 5, 7}}, {"L", {64, 256, 1024}}})};
  t.sweeps["ci"] = {{4, 16}, {"B=8 C=32 k=3 L=64"}};
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "sums of C k products in an order of the library's choice";
  t.odd_shapes = {"B=1 C=1 k=1 L=1",
                  "B=3 C=4 k=3 L=11 O=6 groups=2 stride=2",
                  "B=2 C=3 k=3 L=13 dilation=2 padding=0",
                  "B=2 C=3 k=4 L=9 groups=3",
                  "B=2 C=2 k=4 L=7 O=3 same=1 biases=0",
                  "B=1 C=3 k=5 L=19 stride=3 padding_mode=1",
                  "B=2 C=2 k=3 L=5 padding_mode=2 dilation=3",
                  "B=2 C=2 k=3 L=5 padding_mode=3 groups=2"};
  t.refusals = {{"B=1 C=6 k=3 L=8 groups=4",
                 "[conv1d] groups: got 4, expected a divisor of C=6 and O=6; try groups=1"},
                {"B=1 C=2 k=3 L=8 stride=2 same=1",
                 "[conv1d] same: got stride=2, expected an ordinary convolution of stride 1; try "
                 "same=0"},
                {"B=1 C=2 k=3 L=8 output_padding=1",
                 "[conv1d] output_padding: got 1, expected 0, since nothing is transposed; try "
                 "output_padding=0"}};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::conv1d_target
