// groupnorm: y = (x - mean) / sqrt(var + eps) * weight + bias, statistics per sample and group of
// channels, affine part per channel
// shapes: x [N,B,C,...], weight bias [N,C] -> y [N,B,C,...]
// source: torch.nn.GroupNorm
#include "primitives/norm/sample_norm.h"

namespace wide::groupnorm_target {
namespace {

struct GroupNormConfig {
  int64_t groups = 1;
  double eps = 1e-5;
  std::string text() const { return fmt::format("groups={} eps={}", groups, eps); }
};

// ------------------------------------------------------------------------------ single model

Network network(const Shape& shape) {
  divides("groupnorm", shape, "C", "groups");
  const int64_t c = shape["C"], groups = shape["groups"];
  return {.name = "groupnorm",
          .tensors = {input("x", {shape["B"], c, shape["H"], shape["W"]}),
                      parameter("weight", {c}, 1.0, Fill::near_one), parameter("bias", {c})},
          .forward = [groups](const Tensors& t) {
            return Tensors{at::group_norm(t[0], groups, t[1], t[2], 1e-5, true)};
          }};
}

// ------------------------------------------------------------------------------------ claims

std::optional<Claimed> claim_region(const CallView& call) {  // x, groups, weight, bias, eps
  if (!call.is_tensor(0) || call.value(0).sizes.size() < 2) return std::nullopt;
  return Claimed{GroupNormConfig{static_cast<int64_t>(call.number(1, 1)), call.number(4, 1e-5)},
                 {call.id(0), call.id(2), call.id(3)},
                 {0}};
}

std::optional<Claimed> claim_node(const CallView& call) {  // x, weight, bias, B, C, HW, groups, eps
  if (!call.is_tensor(0) || call.value(0).sizes.size() < 2) return std::nullopt;
  return Claimed{GroupNormConfig{static_cast<int64_t>(call.number(6, 1)), call.number(7, 1e-5)},
                 {call.id(0), call.id(1), call.id(2)},
                 {0, -1, -1}};
}

// -------------------------------------------------------------------------------- strategies

Tensors fused(const GroupNormConfig& c, const WideCall& call) {
  return {sample_norm(call, c.groups, c.eps)};
}

Tensors one_pass(const GroupNormConfig& c, const WideCall& call) {
  return {norms::group_norm(norms::for_group_norm(call.inputs[0]), call.inputs[1], call.inputs[2],
                            c.groups, c.eps)};
}

// ------------------------------------------------------------------------------ registration

Target target() {
  Target t;
  t.name = "groupnorm";
  t.family = "normalization";
  t.summary = "Group normalisation: statistics per sample and group of channels";
  t.formula = "y = (x - mean) / sqrt(var + eps) * w + b,  NBC.., NC -> NBC..";
  t.source = "torch.nn.GroupNorm";
  t.network = network;
  t.axes = axes({"B", "C", "H", "W"}, {{"groups", "groups of channels"}});
  t.sweeps["quick"] = {quick_n(), {"B=8 C=64 H=32 W=32 groups=8"}};
  Sweep full{full_n_100(), {}};
  for (const int64_t b : {4, 8, 16})
    for (const int64_t c : {32, 64, 128, 256})
      for (const int64_t h : {16, 32, 64})
        full.shapes.push_back({{"B", b}, {"C", c}, {"H", h}, {"W", h}, {"groups", 8}});
  t.sweeps["full"] = full;
  t.sweeps["ci"] = {{4, 16}, {"B=4 C=32 H=16 W=16 groups=8"}};
  t.flops = [](const Shape& s) { return 8.0 * product(s, {"B", "C", "H", "W"}); };
  t.tolerance = {{at::kFloat, 2e-5}, {at::kDouble, 1e-11}};
  t.tolerance_reason = "mean and variance sum C/groups H W terms in single precision";
  t.odd_shapes = {"B=3 C=6 H=5 W=1 groups=3"};
  t.refusals = {{"B=1 C=6 H=2 W=2 groups=4",
                 "[groupnorm] groups: got 4, expected a divisor of C=6; try groups=1"}};
  t.oracle = "y = load(nn.GroupNorm(a.groups, a.C))(t['x'])";
  t.claims = {{"aten::group_norm", claim_region}, {"aten::native_group_norm", claim_node}};
  t.strategies = {
      strategy<GroupNormConfig>("one_pass", "statistics and own affine part in one pass, inference",
                                one_pass, {}, {"wide::group_norm"}),
      strategy<GroupNormConfig>("fused", "the models' groups as groups of one group norm", fused)};
  t.parameter_inputs = {false, true, true};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::groupnorm_target
