// conv2d: y[b,o,p] = bias[o] + sum over channels and taps of w[o,c,t] x[b,c,p*stride + t*dilation]
// shapes: x [N,B,C,H,W], w [N,O,C/groups,k,k], bias [N,O] -> y [N,B,O,H',W']
// source: torch.nn.Conv2d
#include "primitives/convolution_common.h"

namespace wide {
namespace {

Applies unfold_applies(const ConvolutionConfig& config, const WideCall& call) {
  return convolution::unfold_applies("conv2d", config, call);
}

Target target() {
  Target t;
  t.name = "conv2d";
  t.kind = Kind::primitive;
  t.family = "convolution";
  t.summary = "2-D convolution, any stride, padding, dilation and groups";
  t.formula = "y = w * x + b,  NBCHW, NOCkk -> NBOHW";
  t.source = "torch.nn.Conv2d";
  t.network = [](const Shape& s) { return convolution::network("conv2d", s, 2, {"H", "W"}); };
  t.sweeps["quick"] = {quick_n(), {{{"B", 8}, {"C", 64}, {"k", 3}, {"H", 32}, {"W", 32}}}};
  Sweep full{full_n(), {}};
  for (const int64_t b : {4, 8, 16})
    for (const int64_t c : {32, 64, 128})
      for (const int64_t k : {1, 3, 5})
        for (const int64_t h : {16, 32, 56})
          full.shapes.push_back({{"B", b}, {"C", c}, {"k", k}, {"H", h}, {"W", h}});
  t.sweeps["full"] = full;
  t.sweeps["ci"] = {{4, 16}, {{{"B", 4}, {"C", 32}, {"k", 3}, {"H", 16}, {"W", 16}}}};
  t.flops = [](const Shape& s) { return convolution::flops(s, {"H", "W"}); };
  t.tolerance = {{at::kFloat, 2e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "sums of C k k products; Winograd kernels lose another digit";
  t.refusals = {{{{"B", 1}, {"C", 4}, {"k", 3}, {"H", 8}, {"W", 8}, {"groups", 3}},
                 "[conv2d] groups: got 3, expected a divisor of C=4 and O=4; try groups=1"},
                {{{"B", 1}, {"C", 4}, {"k", 5}, {"H", 2}, {"W", 8}, {"padding", 0}},
                 "[conv2d] H: got 2, expected at least 5; try a smaller k"}};
  t.claims = convolution::claims(2);
  t.strategies = {
      strategy<ConvolutionConfig>("grouped", "the models as groups of one convolution",
                                  convolution::grouped),
      strategy<ConvolutionConfig>("channels_last", "grouped, channels innermost in memory",
                                  convolution::channels_last),
      strategy<ConvolutionConfig>("unfold", "patches gathered once, then one batched GEMM",
                                  convolution::unfold_gemm, unfold_applies)};
  t.parameter_inputs = {false, true, true};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide
