// convtranspose1d: y[b,o,p] = bias[o] + sum of w[c,o,t] x[b,c,q] over channels c and taps t with
//   p = q*stride + t*dilation
// shapes: x [N,B,C,L], w [N,C,O/groups,k], bias [N,O] -> y [N,B,O,L']
// source: torch.nn.ConvTranspose1d
#include "primitives/convolution/convolution_common.h"

namespace wide::convtranspose1d_target {
namespace {

Target target() {
  Target t = convolution::target({"convtranspose1d", {"L"}, true});
  const Shape shape{"B=8 C=64 k=4 stride=2 padding=1 L=256"};
  t.sweeps["quick"] = {quick_n(), {shape}};
  t.sweeps["full"] = {full_n(), {shape}};
  t.sweeps["ci"] = {{4, 8}, {"B=4 C=16 k=4 stride=2 padding=1 L=32"}};
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "sums of C k / stride products in an order of the library's choice";
  t.odd_shapes = {"B=1 C=1 k=1 L=1", "B=2 C=4 k=3 L=7 O=6 groups=2 stride=3 output_padding=2",
                  "B=3 C=3 k=4 L=5 dilation=2 padding=0 biases=0",
                  "B=1 C=2 k=2 L=3 stride=5 padding=0 output_padding=3"};
  t.refusals = {
      {"B=1 C=6 k=3 L=8 groups=4",
       "[convtranspose1d] groups: got 4, expected a divisor of C=6 and O=6; try groups=1"},
      {"B=1 C=2 k=4 L=8 stride=2 output_padding=2",
       "[convtranspose1d] output_padding: got 2, expected less than stride=2 or dilation=1; try "
       "output_padding=0"},
      {"B=1 C=2 k=3 L=1 padding=2",
       "[convtranspose1d] L: got 1, which leaves nothing, expected more; try a smaller padding"},
      {"B=1 C=2 k=3 L=8 padding_mode=1",
       "[convtranspose1d] padding_mode: got 1, expected 0 (zeros); try padding_mode=0"}};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::convtranspose1d_target
