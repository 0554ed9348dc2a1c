// adaptiveavgpool2d: y[i,j] = mean of x over rows floor(i H / oh) to ceil((i+1) H / oh), columns
// alike
// shapes: x [N,B,C,H,W] -> y [N,B,C,oh,ow]
// source: torch.nn.AdaptiveAvgPool2d
#include "primitives/kernels/pooling/adaptive_pool.h"
#include "primitives/layout.h"

namespace wide::adaptiveavgpool2d_target {
namespace {

struct AdaptiveConfig {
  Sizes output;
  std::string text() const { return fmt::format("output={}", list_text(output)); }
};

// ------------------------------------------------------------------------------ single model

Network network(const Shape& shape) {
  const int64_t oh = shape.get("oh", 1), ow = shape.get("ow", oh);
  if (oh < 1) fail("[adaptiveavgpool2d] oh: got {}, expected at least 1; try oh=1", oh);
  if (ow < 1) fail("[adaptiveavgpool2d] ow: got {}, expected at least 1; try ow=1", ow);
  return {.name = "adaptiveavgpool2d",
          .tensors = {input("x", {shape["B"], shape["C"], shape["H"], shape["W"]})},
          .forward = [oh, ow](const Tensors& t) {
            return Tensors{at::adaptive_avg_pool2d(t[0], {oh, ow})};
          }};
}

// ------------------------------------------------------------------------------------ claims

/// An unbatched image `[C, H, W]` is an image as well: only the last two axes count.
std::optional<Claimed> claim(const CallView& call) {
  if (!call.is_tensor(0) || call.value(0).sizes.size() < 3) return std::nullopt;
  const Sizes output = call.ints(1);
  if (output.size() != 2 || output[0] < 1 || output[1] < 1) return std::nullopt;
  return Claimed{AdaptiveConfig{output}, {call.id(0)}, {0}};
}

// -------------------------------------------------------------------------------- strategies

/// The engine's own operator, which reads every plane once.
Tensors one_pass(const AdaptiveConfig& c, const WideCall& call) {
  return {adaptive_average_pool(call.inputs[0], c.output)};
}

Applies one_pass_applies(const AdaptiveConfig&, const WideCall& call) {
  if (call.inputs[0].is_contiguous()) return std::nullopt;
  return reason("adaptiveavgpool2d/one_pass", "x", "one that is not contiguous", "a contiguous one",
                "batched");
}

/// There are no weights, so N is folded into the batch or the channels, whichever needs no copy.
Tensors batched(const AdaptiveConfig& c, const WideCall& call) {
  const Tensor& x = call.inputs[0];
  if (x.dim() == 4) {
    // For unbatched images `[N, C, H, W]` is a batch already.
    return {at::adaptive_avg_pool2d(x, c.output)};
  }
  const Folding way = cheapest_folding(x);
  return {unfold(at::adaptive_avg_pool2d(fold(x, way), c.output), way, call.n)};
}

// ------------------------------------------------------------------------------ registration

Target target() {
  Target t;
  t.name = "adaptiveavgpool2d";
  t.family = "pooling";
  t.summary = "Average pool to a given size, windows as PyTorch cuts them";
  t.formula = "y = mean over windows of x,  NBCHW -> NBChw";
  t.source = "torch.nn.AdaptiveAvgPool2d";
  t.network = network;
  t.axes = axes({"B", "C", "H", "W"},
                {{"oh", "height of the result", 1}, {"ow", "width of the result", {}, "oh"}});
  std::vector<Shape> shapes;
  for (const int64_t size : {56, 32})
    for (const int64_t c : {64, 256})
      shapes.push_back({{"B", 16}, {"C", c}, {"H", size}, {"W", size}, {"oh", 1}, {"ow", 1}});
  t.sweeps["quick"] = {quick_n(), shapes};
  t.sweeps["full"] = {full_n(), shapes};
  t.sweeps["ci"] = {{4, 8}, {"B=4 C=8 H=16 W=16 oh=1 ow=1"}};
  t.flops = [](const Shape& s) { return product(s, {"B", "C", "H", "W"}); };
  t.tolerance = {{at::kFloat, 2e-6}, {at::kDouble, 1e-12}};
  t.tolerance_reason = "means of a few thousand terms, summed in an order of the library's choice";
  t.odd_shapes = {"B=1 C=1 H=1 W=1", "B=2 C=3 H=7 W=5 oh=3 ow=2", "B=2 C=1 H=3 W=4 oh=5 ow=4",
                  "B=1 C=2 H=6 W=11 oh=6 ow=1"};
  t.refusals = {
      {"B=1 C=1 H=4 W=4 oh=0", "[adaptiveavgpool2d] oh: got 0, expected at least 1; try oh=1"},
      {"B=1 C=1 H=0 W=4", "[adaptiveavgpool2d] H: got 0, expected at least 1; try H=1"}};
  t.oracle = R"(
oh, ow = a.oh, a.ow or a.oh
rows = [slice(i * a.H // oh, -(-(i + 1) * a.H // oh)) for i in range(oh)]
columns = [slice(j * a.W // ow, -(-(j + 1) * a.W // ow)) for j in range(ow)]
means = [torch.stack([t['x'][:, :, i, j].mean((2, 3)) for j in columns], -1) for i in rows]
y = nn.AdaptiveAvgPool2d((oh, ow))(t['x'])
assert torch.allclose(torch.stack(means, -2), y, rtol=1e-12, atol=1e-12)
)";
  t.claims = {{"aten::adaptive_avg_pool2d", claim}, {"aten::_adaptive_avg_pool2d", claim}};
  t.strategies = {
      strategy<AdaptiveConfig>("one_pass", "every plane read once, windows summed in cache",
                               one_pass, one_pass_applies, {"wide::adaptive_average_pool"}),
      strategy<AdaptiveConfig>("batched", "N folded into the batch or the channels", batched)};
  t.parameter_inputs = {false};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::adaptiveavgpool2d_target
