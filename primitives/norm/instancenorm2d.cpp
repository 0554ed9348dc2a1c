// instancenorm2d: y = (x - mean) / sqrt(var + eps) * weight + bias, statistics per sample and
//   channel; running statistics, if any, are updated by their mean over the batch; eval mode uses
//   the running ones, which makes it a batch norm
// shapes: x [N,B,C,H,W], weight bias [N,C] -> y [N,B,C,H,W]
// source: torch.nn.InstanceNorm2d
#include "primitives/norm/sample_norm.h"

namespace wide::instancenorm2d_target {
namespace {

struct InstanceNormConfig {
  int64_t channels = 1;
  double eps = 1e-5;
  std::string text() const { return fmt::format("C={} eps={}", channels, eps); }
};

// ------------------------------------------------------------------------------ single model

Network network(const Shape& shape) {
  if (shape["H"] * shape["W"] < 2)
    fail("[instancenorm2d] H: got one value per channel, expected more; try H=2");
  const bool affine = shape.get("affine", 1) != 0, track = shape.get("track", 0) != 0;
  const int64_t c = shape["C"];
  Network net;
  net.name = "instancenorm2d";
  net.training = track;
  net.tensors = {input("x", {shape["B"], c, shape["H"], shape["W"]})};
  if (affine) {
    net.tensors.push_back(parameter("weight", {c}, 1.0, Fill::near_one));
    net.tensors.push_back(parameter("bias", {c}));
  }
  if (track) {
    net.tensors.push_back(buffer("running_mean", {c}, Fill::normal));
    net.tensors.push_back(buffer("running_var", {c}, Fill::positive));
  }
  net.forward = [=](const Tensors& t) {
    size_t at = 1;
    const auto next = [&](bool present) { return present ? t[at++] : Tensor(); };
    const Tensor weight = next(affine), bias = next(affine), mean = next(track), var = next(track);
    return Tensors{at::instance_norm(t[0], weight, bias, mean, var, true, 0.1, 1e-5, true)};
  };
  return net;
}

// ------------------------------------------------------------------------------------ claims

/// x, weight, bias, running mean and variance, use_input_stats, momentum, eps. Calls with running
/// statistics are decomposed when they are recorded.
std::optional<Claimed> claim(const CallView& call) {
  if (!call.is_tensor(0) || call.is_tensor(3) || call.is_tensor(4) || !call.flag(5))
    return std::nullopt;
  return Claimed{InstanceNormConfig{call.value(0).sizes.at(1), call.number(7, 1e-5)},
                 {call.id(0), call.id(1), call.id(2)},
                 {0}};
}

// -------------------------------------------------------------------------------- strategies

Tensors fused(const InstanceNormConfig& c, const WideCall& call) {
  return {sample_norm(call, c.channels, c.eps)};
}

Tensors one_pass(const InstanceNormConfig& c, const WideCall& call) {
  return {norms::group_norm(norms::for_group_norm(call.inputs[0]), call.inputs[1], call.inputs[2],
                            c.channels, c.eps)};
}

// ------------------------------------------------------------------------------ registration

Target target() {
  Target t;
  t.name = "instancenorm2d";
  t.family = "normalization";
  t.summary = "Instance normalisation: statistics per sample and channel";
  t.formula = "y = (x - mean) / sqrt(var + eps) * w + b,  NBCHW, NC -> NBCHW";
  t.source = "torch.nn.InstanceNorm2d";
  t.network = network;
  t.axes = axes({"B", "C", "H", "W"},
                {{"affine", "0: no weights", 1}, {"track", "1: running statistics, updated", 0}});
  t.sweeps["quick"] = {quick_n(), {"B=8 C=64 H=32 W=32"}};
  Sweep full{full_n_100(), {}};
  for (const int64_t b : {4, 8, 16})
    for (const int64_t c : {32, 64, 128, 256})
      for (const int64_t h : {16, 32, 64})
        full.shapes.push_back({{"B", b}, {"C", c}, {"H", h}, {"W", h}});
  t.sweeps["full"] = full;
  t.sweeps["ci"] = {{4, 16}, {"B=4 C=32 H=16 W=16"}};
  t.flops = [](const Shape& s) { return 8.0 * product(s, {"B", "C", "H", "W"}); };
  t.tolerance = {{at::kFloat, 2e-5}, {at::kDouble, 1e-11}};
  t.tolerance_reason = "mean and variance sum H W terms in single precision";
  t.odd_shapes = {"B=3 C=5 H=3 W=2 affine=0", "B=2 C=3 H=5 W=7 track=1",
                  "B=1 C=2 H=2 W=1 affine=0 track=1"};
  t.refusals = {
      {"B=1 C=2 H=1 W=1", "[instancenorm2d] H: got one value per channel, expected more; try H=2"},
      {"B=1 C=0 H=2 W=2", "[instancenorm2d] C: got 0, expected at least 1; try C=1"}};
  t.oracle = R"(
norm = load(nn.InstanceNorm2d(a.C, affine=bool(a.affine), track_running_stats=bool(a.track)))
y = [norm(t['x'])]
if a.track:
    y += [norm.running_mean, norm.running_var]
)";
  t.claims = {{"aten::instance_norm", claim}};
  t.strategies = {
      strategy<InstanceNormConfig>("one_pass",
                                   "statistics and own affine part in one pass, inference",
                                   one_pass, {}, {"wide::group_norm"}),
      strategy<InstanceNormConfig>("fused", "every channel a group of one group norm", fused)};
  t.parameter_inputs = {false, true, true};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::instancenorm2d_target
