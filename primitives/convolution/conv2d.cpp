// conv2d: y[b,o,p] = bias[o] + sum over channels and taps of w[o,c,t] x[b,c,p*stride + t*dilation]
// shapes: x [N,B,C,H,W], w [N,O,C/groups,k,k], bias [N,O] -> y [N,B,O,H',W']
// source: torch.nn.Conv2d
#include "primitives/convolution/convolution_common.h"
#include "primitives/kernels/convolution/winograd.h"

namespace wide::conv2d_target {
namespace {

/// Winograd's algorithm, for stride 1: fewer products, of transformed patches and filters.
template <int kTile>
Tensors winograd(const ConvolutionConfig& c, const WideCall& call) {
  return {winograd_convolution(call.inputs[0], call.inputs[1], if_defined(call.inputs[2]),
                               c.padding, kTile)};
}

Applies winograd_applies(const std::string& name, const ConvolutionConfig& c,
                         const WideCall& call) {
  const Tensor& w = call.inputs[1];
  const auto no = [&](const std::string& what, const std::string& got,
                      const std::string& expected) {
    return reason("conv2d/" + name, what, got, expected, "direct");
  };
  if (w.size(3) != w.size(4) || (w.size(3) != 3 && w.size(3) != 5))
    return no("kernel", fmt::format("{} x {}", w.size(3), w.size(4)), "3 x 3 or 5 x 5");
  if (c.stride != Sizes{1, 1} || c.dilation != Sizes{1, 1} || c.groups != 1)
    return no("config", c.text(), "stride, dilation and groups 1");
  if (w.size(1) < 8 || w.size(2) < 8)
    return no("channels", fmt::format("{} to {}", w.size(2), w.size(1)), "at least 8 each");
  return std::nullopt;
}

/// F(tile x tile, k x k).
template <int kTile>
Strategy winograd_strategy(const std::string& name, const std::string& help) {
  return strategy<ConvolutionConfig>(name, help, winograd<kTile>,
                                     [name](const ConvolutionConfig& c, const WideCall& call) {
                                       return winograd_applies(name, c, call);
                                     },
                                     {"wide::winograd_convolution"});
}

Target target() {
  Target t = convolution::target({"conv2d", {"H", "W"}});
  t.sweeps["quick"] = {quick_n(), {"B=8 C=64 k=3 H=32 W=32"}};
  Sweep full{full_n(), {}};
  for (const int64_t b : {4, 8, 16})
    for (const int64_t c : {32, 64, 128})
      for (const int64_t k : {1, 3, 5})
        for (const int64_t h : {16, 32, 56})
          full.shapes.push_back({{"B", b}, {"C", c}, {"k", k}, {"H", h}, {"W", h}});
  t.sweeps["full"] = full;
  t.sweeps["ci"] = {{4, 16}, {"B=4 C=32 k=3 H=16 W=16"}};
  t.strategies.insert(
      t.strategies.begin() + 1,
      {winograd_strategy<2>("winograd", "Winograd's F(2x2, 3x3) or F(2x2, 5x5), inference"),
       winograd_strategy<4>("winograd_4x4", "Winograd's F(4x4, 3x3) or F(4x4, 5x5), inference")});
  t.tolerance = {{at::kFloat, 2e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "sums of C k k products; Winograd kernels lose another digit";
  t.odd_shapes = {"B=1 C=1 k=1 H=1 W=1",
                  "B=2 C=4 k=3 H=7 W=9 O=6 groups=2 stride=2",
                  "B=2 C=3 k=3 H=8 W=5 dilation=2 padding=1",
                  "B=2 C=5 k=3 H=6 W=5 groups=5",
                  "B=1 C=2 k=2 H=5 W=3 same=1 biases=0",
                  "B=1 C=2 k=5 H=7 W=3 padding_mode=1",
                  "B=1 C=3 k=3 H=2 W=17 padding_mode=2 biases=0",
                  "B=2 C=2 k=3 H=5 W=4 padding_mode=3 stride=2"};
  t.refusals = {
      {"B=1 C=4 k=3 H=8 W=8 groups=3",
       "[conv2d] groups: got 3, expected a divisor of C=4 and O=4; try groups=1"},
      {"B=1 C=4 k=5 H=2 W=8 padding=0", "[conv2d] H: got 2, expected at least 5; try a smaller k"},
      {"B=1 C=4 k=5 H=8 W=2 padding_mode=1",
       "[conv2d] W: got 2, expected at least 3 for reflect padding; try padding_mode=0"},
      {"B=1 C=4 k=3 H=8 W=8 padding_mode=4",
       "[conv2d] padding_mode: got 4, expected 0 (zeros), 1 (reflect), 2 (replicate) or "
       "3 (circular); try padding_mode=0"}};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::conv2d_target
