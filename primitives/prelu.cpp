// prelu: y = x where x > 0, else a x; one slope a per channel, or one per model
// shapes: x [N,B,C,...], a [N,C] or [N,1] -> y [N,B,C,...]
// source: torch.nn.PReLU
#include <ATen/ATen.h>

#include "engine/widen/describe.h"
#include "primitives/kernels/pointwise/prelu.h"

namespace wide::prelu_target {
namespace {

/// `channels`: how many slopes a model has.
struct PreluConfig {
  int64_t channels = 1;
  std::string text() const { return fmt::format("slopes={}", channels); }
};

// ------------------------------------------------------------------------------ single model

Network network(const Shape& shape) {
  const int64_t c = shape["C"], slopes = shape.get("slopes", c);
  if (slopes != 1 && slopes != c)
    fail("[prelu] slopes: got {}, expected 1 or C={}; try slopes=1", slopes, c);
  return {.name = "prelu",
          .tensors = {input("x", {shape["B"], c, shape["H"], shape["W"]}),
                      parameter("weight", {slopes}, 0.25)},
          .forward = [](const Tensors& t) { return Tensors{at::prelu(t[0], t[1])}; }};
}

// ------------------------------------------------------------------------------------ claims

std::optional<Claimed> claim(const CallView& call) {  // x, weight
  if (!call.is_tensor(0) || !call.is_tensor(1) || call.value(1).sizes.size() != 1)
    return std::nullopt;
  const Sizes& x = call.value(0).sizes;
  const int64_t slopes = call.value(1).sizes[0];
  if (x.empty() || (slopes != 1 && (x.size() < 2 || x[1] != slopes))) return std::nullopt;
  return Claimed{PreluConfig{slopes}, {call.id(0), call.id(1)}, {0}};
}

// -------------------------------------------------------------------------------- strategies

/// The engine's own operator: one pass, into reused memory.
Tensors one_pass(const PreluConfig&, const WideCall& call) {
  return {wide::prelu(call.inputs[0], call.inputs[1])};
}

Applies one_pass_applies(const PreluConfig&, const WideCall& call) {
  if (call.inputs[0].is_contiguous()) return std::nullopt;
  return reason("prelu/one_pass", "x", "one that is not contiguous", "a contiguous one", "wide");
}

/// Slopes `[N, 1, C, 1, ...]` broadcast over x.
Tensors broadcast(const PreluConfig& c, const WideCall& call) {
  const Tensor& x = call.inputs[0];
  Sizes sizes(static_cast<size_t>(x.dim()), 1);
  sizes[0] = call.n;
  if (c.channels > 1) sizes[2] = c.channels;
  return {at::_prelu_kernel(x, call.inputs[1].reshape(sizes))};
}

// ------------------------------------------------------------------------------ registration

Target target() {
  Target t;
  t.name = "prelu";
  t.family = "activation";
  t.summary = "Leaky ReLU whose slopes are learned, per channel or one";
  t.formula = "y = max(x, 0) + a min(x, 0),  NBC.., NC -> NBC..";
  t.source = "torch.nn.PReLU";
  t.network = network;
  t.axes = axes({"B", "C", "H", "W"}, {{"slopes", "1, or one for each channel", {}, "C"}});
  const std::vector<Shape> shapes{"B=16 C=64 H=32 W=32", "B=16 C=128 H=32 W=32"};
  t.sweeps["quick"] = {quick_n(), shapes};
  t.sweeps["full"] = {full_n(), shapes};
  t.sweeps["ci"] = {{4, 16}, {"B=4 C=16 H=16 W=16"}};
  t.flops = [](const Shape& s) { return product(s, {"B", "C", "H", "W"}); };
  t.tolerance = {{at::kFloat, 1e-6}, {at::kDouble, 1e-12}};
  t.tolerance_reason = "one product per element";
  t.odd_shapes = {"B=1 C=1 H=1 W=1", "B=3 C=5 H=3 W=7", "B=2 C=3 H=5 W=2 slopes=1",
                  "B=2 C=21 H=1 W=1"};
  t.refusals = {
      {"B=1 C=6 H=1 W=1 slopes=4", "[prelu] slopes: got 4, expected 1 or C=6; try slopes=1"},
      {"B=1 C=0 H=1 W=1", "[prelu] C: got 0, expected at least 1; try C=1"}};
  t.oracle = "y = load(nn.PReLU(a.slopes or a.C))(t['x'])";
  t.claims = {{"aten::prelu", claim}};
  t.strategies = {
      strategy<PreluConfig>("one_pass", "planes with their own slope, written once", one_pass,
                            one_pass_applies, {"wide::prelu"}),
      strategy<PreluConfig>("wide", "slopes broadcast over batch and space", broadcast)};
  t.parameter_inputs = {false, true};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::prelu_target
