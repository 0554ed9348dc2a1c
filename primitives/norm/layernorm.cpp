// layernorm: y = (x - mean) / sqrt(var + eps) * weight + bias over the last axes
// shapes: x [N,B,..,D], weight bias [N,D] -> y [N,B,..,D]
// source: torch.nn.LayerNorm
#include <ATen/ATen.h>

#include "engine/widen/describe.h"
#include "primitives/kernels/norm/norms.h"
#include "primitives/patterns/norms.h"

namespace wide::layernorm_target {
namespace {

struct LayerNormConfig {
  Sizes normalized;
  double eps = 1e-5;
  bool statistics = false;  // mean and 1/sqrt(var + eps) are outputs too, for backward
  std::string text() const {
    return fmt::format("D={} eps={}{}", list_text(normalized), eps, statistics ? " stats=1" : "");
  }
};

// ------------------------------------------------------------------------------ single model

Network network(const Shape& shape) {
  const int64_t d = shape["D"];
  return {.name = "layernorm",
          .tensors = {input("x", {shape["B"], shape["T"], d}),
                      parameter("weight", {d}, 1.0, Fill::near_one), parameter("bias", {d})},
          .forward = [d](const Tensors& t) {
            return Tensors{at::layer_norm(t[0], {d}, t[1], t[2], 1e-5)};
          }};
}

// ------------------------------------------------------------------------------------ claims

/// Arguments of both operators: x, normalized shape, weight, bias, eps.
std::optional<Claimed> claim(const CallView& call, bool statistics, std::vector<int> results) {
  if (!call.is_tensor(0)) return std::nullopt;
  return Claimed{LayerNormConfig{call.ints(1), call.number(4, 1e-5), statistics},
                 {call.id(0), call.id(2), call.id(3)},
                 std::move(results)};
}

std::optional<Matched> written_out(const PatternView& view, size_t node) {
  auto norm = layer_norm_written_out(view, node);
  if (!norm) return std::nullopt;
  return Matched{{LayerNormConfig{{view.meta(norm->x).sizes.back()}, norm->eps},
                  {norm->x, norm->weight, norm->bias},
                  {0}},
                 std::move(norm->nodes)};
}

// -------------------------------------------------------------------------------- strategies

/// A weight `[N, D...]`, viewed to broadcast against activations of rank `rank`.
Tensor affine(const Tensor& weight, const LayerNormConfig& c, int64_t rank) {
  Sizes sizes(static_cast<size_t>(rank) - c.normalized.size(), 1);
  sizes[0] = weight.size(0);
  sizes.insert(sizes.end(), c.normalized.begin(), c.normalized.end());
  return weight.reshape(sizes);
}

/// Normalises all models at once, then applies each model's affine part in another pass.
Tensors wide_norm(const LayerNormConfig& c, const WideCall& call) {
  const auto [y, mean, rstd] =
      at::native_layer_norm(call.inputs[0], c.normalized, Tensor(), Tensor(), c.eps);
  const Tensor &w = call.inputs[1], &b = call.inputs[2];
  if (w.defined() && b.defined())
    return {at::addcmul(affine(b, c, y.dim()), y, affine(w, c, y.dim())), mean, rstd};
  if (w.defined()) return {y * affine(w, c, y.dim()), mean, rstd};
  if (b.defined()) return {y + affine(b, c, y.dim()), mean, rstd};
  return {y, mean, rstd};
}

/// The engine's own kernel: reads each row once and applies the model's affine part at once.
Tensors one_pass(const LayerNormConfig& c, const WideCall& call) {
  return {norms::layer_norm(call.inputs[0].contiguous(), call.inputs[1], call.inputs[2],
                            c10::multiply_integers(c.normalized), c.eps, /*rms=*/false)};
}

Applies one_pass_applies(const LayerNormConfig& c, const WideCall&) {
  if (!c.statistics) return std::nullopt;
  return reason("layernorm/one_pass", "results", "mean and rstd read as well",
                "the normalised values alone", "wide");
}

// ------------------------------------------------------------------------------ registration

Target target() {
  Target t;
  t.name = "layernorm";
  t.family = "normalization";
  t.summary = "Layer normalisation over the last axes";
  t.formula = "y = (x - mean) / sqrt(var + eps) * w + b,  NBTD, ND -> NBTD";
  t.source = "torch.nn.LayerNorm";
  t.network = network;
  t.axes = axes({"B", "T", "D"});
  t.sweeps["quick"] = {quick_n(), {"B=8 T=128 D=256"}};
  t.sweeps["full"] = {
      full_n_100(),
      grid({{"B", {4, 8, 16, 32}}, {"T", {64, 128, 256, 512}}, {"D", {128, 256, 512, 768}}})};
  t.sweeps["ci"] = {{4, 16}, {"B=4 T=64 D=128"}};
  t.flops = [](const Shape& s) { return 8.0 * product(s, {"B", "T", "D"}); };
  t.tolerance = {{at::kFloat, 2e-5}, {at::kDouble, 1e-11}};
  t.tolerance_reason = "mean and variance sum D terms in single precision";
  t.odd_shapes = {"B=3 T=1 D=7", "B=1 T=5 D=67"};
  t.refusals = {{"B=1 T=1 D=0", "[layernorm] D: got 0, expected at least 1; try D=1"}};
  t.oracle = "y = load(nn.LayerNorm(a.D))(t['x'])";
  t.claims = {{"aten::layer_norm", [](const CallView& c) { return claim(c, false, {0}); }},
              {"aten::native_layer_norm",
               [](const CallView& c) {
                 return claim(c, false, {0, -1, -1});
               }},
              {"aten::native_layer_norm", [](const CallView& c) {
                 return claim(c, true, {0, 1, 2});
               }}};
  t.patterns = {{"aten::add", written_out}};
  t.strategies = {
      strategy<LayerNormConfig>("one_pass", "statistics and own affine part in one pass, inference",
                                one_pass, one_pass_applies, {"wide::layer_norm"}),
      strategy<LayerNormConfig>(
          "wide", "one normalisation without affine part, then one multiply-add", wide_norm)};
  t.parameter_inputs = {false, true, true};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::layernorm_target
