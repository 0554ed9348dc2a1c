// dropout: y = x * mask / (1 - p), mask one with probability 1 - p
// shapes: x [N,B,...] -> y [N,B,...]
// source: torch.nn.Dropout in training (or Monte-Carlo dropout). Random: N models draw N masks
// unless the shared mask is asked for.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"
#include "primitives/kernels/pointwise/dropout.h"

namespace wide::dropout_target {
namespace {

struct DropoutConfig {
  double p = 0.5;
  bool mask = false;  // the mask is an output too (for the backward pass)
  std::string text() const { return fmt::format("p={} mask={}", p, mask ? 1 : 0); }
};

// ------------------------------------------------------------------------------ single model

Network network(const Shape& shape) {
  const int64_t percent = shape.get("percent", 50);
  if (percent < 0 || percent > 100)
    fail("[dropout] percent: got {}, expected 0 to 100; try percent=50", percent);
  const double p = double(percent) / 100;
  return {.name = "dropout",
          .tensors = {input("x", {shape["B"], shape["T"], shape["C"]})},
          .forward = [p](const Tensors& t) { return Tensors{at::dropout(t[0], p, true)}; },
          .random = p > 0 && p < 1};
}

// ------------------------------------------------------------------------------------ claims

std::optional<Claimed> claim_region(const CallView& call) {  // x, p, train
  if (!call.is_tensor(0) || !call.flag(2)) return std::nullopt;
  return Claimed{DropoutConfig{call.number(1, 0.5)}, {call.id(0)}, {0}};
}

std::optional<Claimed> claim_native(const CallView& call, bool mask) {  // results: y, mask
  if (!call.is_tensor(0) || !call.flag(2)) return std::nullopt;
  return Claimed{DropoutConfig{call.number(1, 0.5), mask}, {call.id(0)}, {0, mask ? 1 : -1}};
}

// -------------------------------------------------------------------------------- strategies

/// The engine's own operator: draws and multiplies in one pass, into reused memory.
Tensors one_pass(const DropoutConfig& c, const WideCall& call) {
  return {wide::dropout(call.inputs[0].contiguous(), c.p)};
}

Applies one_pass_applies(const DropoutConfig& c, const WideCall& call) {
  if (c.mask)
    return reason("dropout/one_pass", "mask", "one that is read", "an unused one", "independent");
  if (c.p <= 0 || c.p >= 1)
    return reason("dropout/one_pass", "p", fmt::format("{}", c.p), "one between 0 and 1",
                  "independent");
  if (call.inputs[0].is_contiguous()) return std::nullopt;
  return reason("dropout/one_pass", "x", "one that is not contiguous", "a contiguous one",
                "independent");
}

Tensors masked(const DropoutConfig& c, const Tensor& x, const Tensor& like) {
  const Tensor keep =
      at::bernoulli(at::empty_like(like, like.options(), at::MemoryFormat::Contiguous), 1 - c.p);
  if (c.p >= 1) return {x * 0.0, keep.to(at::kBool).expand(x.sizes())};
  return {x * (keep * (1 / (1 - c.p))), keep.to(at::kBool).expand(x.sizes())};
}

Tensors independent(const DropoutConfig& c, const WideCall& call) {
  return masked(c, call.inputs[0], call.inputs[0]);
}

Tensors shared(const DropoutConfig& c, const WideCall& call) {
  return masked(c, call.inputs[0], call.inputs[0].slice(0, 0, 1));
}

// ------------------------------------------------------------------------------ registration

Target target() {
  Target t;
  t.name = "dropout";
  t.family = "dropout";
  t.summary = "Dropout in training: independent masks per model, or one for all";
  t.formula = "y = x * mask / (1 - p),  NB.. -> NB..";
  t.source = "torch.nn.Dropout";
  t.network = network;
  t.axes = axes({"B", "T", "C"}, {{"percent", "probability of dropping", 50}});
  const std::vector<Shape> shapes{"B=16 T=128 C=64", "B=16 T=256 C=64"};
  t.sweeps["quick"] = {quick_n(), shapes};
  t.sweeps["full"] = {{2, 4, 8, 16, 32, 64}, shapes};
  t.sweeps["ci"] = {{4, 16}, {"B=16 T=128 C=64"}};
  t.flops = [](const Shape& s) { return 2.0 * product(s, {"B", "T", "C"}); };
  t.tolerance_reason = "random: checked by its statistics; with p = 0 it is exact";
  t.refusals = {
      {"B=1 T=1 C=1 percent=101", "[dropout] percent: got 101, expected 0 to 100; try percent=50"}};
  t.claims = {{"aten::dropout", claim_region},
              {"aten::native_dropout", [](const CallView& c) { return claim_native(c, false); }},
              {"aten::native_dropout", [](const CallView& c) { return claim_native(c, true); }}};
  t.strategies = {
      strategy<DropoutConfig>("one_pass", "every element draws, multiplied in the same pass",
                              one_pass, one_pass_applies, {"wide::dropout"}),
      strategy<DropoutConfig>("independent", "every model draws its own mask", independent),
      strategy<DropoutConfig>("shared", "one mask for all models", shared)};
  t.strategies.back().only_when_asked = true;
  t.parameter_inputs = {false};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::dropout_target
