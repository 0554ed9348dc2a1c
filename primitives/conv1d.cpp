// conv1d: y[b,o,p] = bias[o] + sum over channels and taps of w[o,c,t] x[b,c,p*stride + t*dilation]
// shapes: x [N,B,C,L], w [N,O,C/groups,k], bias [N,O] -> y [N,B,O,L']
// source: torch.nn.Conv1d
#include "primitives/convolution_common.h"

namespace wide {
namespace {

Applies unfold_applies(const ConvolutionConfig& config, const WideCall& call) {
  return convolution::unfold_applies("conv1d", config, call);
}

Target target() {
  Target t;
  t.name = "conv1d";
  t.kind = Kind::primitive;
  t.family = "convolution";
  t.summary = "1-D convolution, any stride, padding, dilation and groups";
  t.formula = "y = w * x + b,  NBCL, NOCk -> NBOL";
  t.source = "torch.nn.Conv1d";
  t.network = [](const Shape& s) { return convolution::network("conv1d", s, 1, {"L"}); };
  t.sweeps["quick"] = {quick_n(), {{{"B", 8}, {"C", 64}, {"k", 3}, {"L", 256}}}};
  t.sweeps["full"] = {
      full_n(),
      grid({{"B", {8}}, {"C", {32, 64, 128}}, {"k", {1, 3, 5, 7}}, {"L", {64, 256, 1024}}})};
  t.sweeps["ci"] = {{4, 16}, {{{"B", 8}, {"C", 32}, {"k", 3}, {"L", 64}}}};
  t.flops = [](const Shape& s) { return convolution::flops(s, {"L"}); };
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "sums of C k products in an order of the library's choice";
  t.refusals = {{{{"B", 1}, {"C", 6}, {"k", 3}, {"L", 8}, {"groups", 4}},
                 "[conv1d] groups: got 4, expected a divisor of C=6 and O=6; try groups=1"}};
  t.claims = convolution::claims(1);
  t.strategies = {
      strategy<ConvolutionConfig>("grouped", "the models as groups of one convolution",
                                  convolution::grouped),
      strategy<ConvolutionConfig>("unfold", "patches gathered once, then one batched GEMM",
                                  convolution::unfold_gemm, unfold_applies)};
  t.parameter_inputs = {false, true, true};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide
