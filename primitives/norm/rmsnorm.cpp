// rmsnorm: y = x / sqrt(mean(x^2) + eps) * weight over the last axes
// shapes: x [N,B,..,D], weight [N,D] -> y [N,B,..,D]
// source: torch.nn.RMSNorm; Zhang & Sennrich 2019. Also claimed where it is written out by hand, as
// most language models do.
#include <ATen/ATen.h>

#include <cfloat>

#include "engine/widen/describe.h"
#include "primitives/kernels/norm/norms.h"
#include "primitives/patterns/norms.h"

namespace wide::rmsnorm_target {
namespace {

struct RmsNormConfig {
  Sizes normalized;
  std::optional<double> eps;  // none: the dtype's epsilon
  std::string text() const {
    return fmt::format("D={} eps={}", list_text(normalized), eps ? fmt::to_string(*eps) : "auto");
  }
};

// ------------------------------------------------------------------------------ single model

Network network(const Shape& shape) {
  const int64_t d = shape["D"];
  const bool affine = shape.get("affine", 1) != 0, by_hand = shape.get("byhand", 0) != 0;
  Network net;
  net.name = "rmsnorm";
  net.tensors = {input("x", {shape["B"], shape["T"], d})};
  if (affine) net.tensors.push_back(parameter("weight", {d}, 1.0, Fill::near_one));
  net.forward = [=](const Tensors& t) {
    const Tensor& x = t[0];
    const std::optional<Tensor> weight = affine ? std::optional(t[1]) : std::nullopt;
    if (!by_hand) return Tensors{at::rms_norm(x, {d}, weight, 1e-5)};
    const Tensor y = x * at::rsqrt(x.pow(2).mean({-1}, true) + 1e-5);
    return Tensors{weight ? *weight * y : y};
  };
  return net;
}

// ------------------------------------------------------------------------------------ claims

std::optional<Claimed> claim(const CallView& call, std::vector<int> results) {
  if (!call.is_tensor(0)) return std::nullopt;  // x, normalized shape, weight, eps
  std::optional<double> eps;
  if (!call.constant(3).isNone()) eps = call.number(3, 0.0);
  return Claimed{RmsNormConfig{call.ints(1), eps}, {call.id(0), call.id(2)}, std::move(results)};
}

std::optional<Matched> written_out(const PatternView& view, size_t node) {
  auto norm = rms_norm_written_out(view, node);
  if (!norm) return std::nullopt;
  return Matched{
      {RmsNormConfig{{view.meta(norm->x).sizes.back()}, norm->eps}, {norm->x, norm->weight}, {0}},
      std::move(norm->nodes)};
}

// -------------------------------------------------------------------------------- strategies

/// Normalises all models at once, then multiplies by each model's weights in another pass.
Tensors batched(const RmsNormConfig& c, const WideCall& call) {
  const Tensor &x = call.inputs[0], &w = call.inputs[1];
  const Tensor y = at::rms_norm(x, c.normalized, {}, c.eps);
  if (!w.defined()) return {y};
  Sizes sizes(static_cast<size_t>(x.dim()) - c.normalized.size(), 1);
  sizes[0] = call.n;
  sizes.insert(sizes.end(), c.normalized.begin(), c.normalized.end());
  return {y * w.reshape(sizes)};
}

/// The engine's own kernel: reads each row once and applies the model's weights in the same pass.
Tensors one_pass(const RmsNormConfig& c, const WideCall& call) {
  return {norms::layer_norm(call.inputs[0].contiguous(), call.inputs[1], std::nullopt,
                            c10::multiply_integers(c.normalized), c.eps.value_or(FLT_EPSILON),
                            /*rms=*/true)};
}

// ------------------------------------------------------------------------------ registration

Target target() {
  Target t;
  t.name = "rmsnorm";
  t.family = "normalization";
  t.summary = "Root mean square normalisation over the last axes";
  t.formula = "y = x / sqrt(mean(x²) + eps) * w,  NBTD, ND -> NBTD";
  t.source = "torch.nn.RMSNorm";
  t.network = network;
  t.axes = axes({"B", "T", "D"}, {{"affine", "0: no weights", 1},
                                  {"byhand", "1: written out instead of rms_norm", 0}});
  t.sweeps["quick"] = {quick_n(), {"B=8 T=128 D=256"}};
  t.sweeps["full"] = {full_n_100(), {"B=8 T=128 D=256"}};
  t.sweeps["ci"] = {{4, 16}, {"B=4 T=64 D=128"}};
  t.flops = [](const Shape& s) { return 5.0 * product(s, {"B", "T", "D"}); };
  t.tolerance = {{at::kFloat, 2e-5}, {at::kDouble, 1e-11}};
  t.tolerance_reason = "the mean square sums D terms in single precision";
  t.odd_shapes = {"B=3 T=1 D=7", "B=1 T=5 D=37 byhand=1", "B=2 T=3 D=5 affine=0",
                  "B=2 T=3 D=5 affine=0 byhand=1"};
  t.refusals = {{"B=1 T=1 D=0", "[rmsnorm] D: got 0, expected at least 1; try D=1"}};
  t.oracle = "y = load(nn.RMSNorm(a.D, eps=1e-5, elementwise_affine=bool(a.affine)))(t['x'])";
  t.claims = {{"aten::rms_norm", [](const CallView& c) { return claim(c, {0}); }},
              {"aten::_fused_rms_norm", [](const CallView& c) {
                 return claim(c, {0, -1});
               }}};
  t.patterns = {{"aten::mul", written_out}, {"aten::div", written_out}};
  t.strategies = {
      strategy<RmsNormConfig>("one_pass", "a row is read once, own weights on the way, inference",
                              one_pass, {}, {"wide::layer_norm"}),
      strategy<RmsNormConfig>("batched", "one normalisation, then one product with the weights",
                              batched)};
  t.parameter_inputs = {false, true};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::rmsnorm_target
