// ada_layer_norm_zero_single: shift, scale, gate = chunk(Linear(SiLU(emb)), 3)
//   y = LayerNorm(x) (1 + scale) + shift, no affine part of its own; returns (y, gate)
// shapes: x [N,B,T,D] or [N,B,D], emb [N,B,E] -> y as x, gate [N,B,D]
// source: FLUX's AdaLayerNormZeroSingle. Claims the modulated norm; the linear layer before it is
// claimed by `linear`. Other networks modulate in the same way (DiT, double stream blocks).
#include <ATen/ATen.h>

#include "engine/widen/describe.h"
#include "primitives/kernels/norm/norms.h"

namespace wide::ada_layer_norm_zero_single_target {
namespace {

struct ModulatedConfig {
  int64_t d = 1;
  double eps = 1e-6;
  std::string text() const { return fmt::format("D={} eps={}", d, eps); }
};

// ------------------------------------------------------------------------------ single model

Network network(const Shape& shape) {
  const int64_t b = shape["B"], d = shape["D"], e = shape["E"];
  Sizes x{b, d};
  at_least_where_given("ada_layer_norm_zero_single", shape, {"T"}, 1);
  if (shape.has("T")) x = {b, shape["T"], d};
  Network net;
  net.name = "ada_layer_norm_zero_single";
  net.tensors = {input("x", x), input("emb", {b, e}),
                 parameter("linear.weight", {3 * d, e}, 1.0 / std::sqrt(double(e))),
                 parameter("linear.bias", {3 * d})};
  net.forward = [d](const Tensors& t) {
    const auto parts = at::linear(at::silu(t[1]), t[2], t[3]).chunk(3, -1);
    const auto over_time = [&](const Tensor& p) { return t[0].dim() == 3 ? p.unsqueeze(1) : p; };
    const Tensor normalized = at::layer_norm(t[0], {d}, {}, {}, 1e-6);
    return Tensors{normalized * (1 + over_time(parts[1])) + over_time(parts[0]), parts[2]};
  };
  return net;
}

// ------------------------------------------------------------------------------------ claims

/// Sizes `[..prefix of x's.., 1.., D]`: one row for each index of some leading axes of x. Returns
/// the number of these axes, or nullopt.
std::optional<size_t> leading_axes(const Sizes& x, const Sizes& t) {
  if (t.empty() || t.size() > x.size() || t.back() != x.back()) return std::nullopt;
  const size_t missing = x.size() - t.size();
  size_t axes = 0;
  for (size_t k = 0; k + 1 < t.size(); ++k) {
    if (t[k] == 1 && x[k + missing] != 1) continue;
    if (t[k] != x[k + missing] || missing > 0 || axes != k) return std::nullopt;
    axes = k + 1;
  }
  return axes;
}

/// Matches add(mul(native_layer_norm(x), factor), shift), operands in either order.
std::optional<Matched> match(const PatternView& view, size_t at) {
  const CallView sum = view.call(at);
  if (!sum.is_tensor(0) || !sum.is_tensor(1) || sum.number(2, 1.0) != 1.0) return std::nullopt;
  for (const size_t product : {size_t{0}, size_t{1}}) {
    const auto times = view.made_by(sum.id(product), "aten::mul");
    if (!times || !view.call(*times).is_tensor(0) || !view.call(*times).is_tensor(1)) continue;
    for (const size_t y : {size_t{0}, size_t{1}}) {
      const auto norm = view.made_by(view.call(*times).id(y), "aten::native_layer_norm");
      if (!norm) continue;
      const CallView call = view.call(*norm);  // x, normalized shape, weight, bias, eps
      if (call.is_tensor(2) || call.is_tensor(3) || call.ints(1).size() != 1) continue;
      const ValueId factor = view.call(*times).id(1 - y), shift = sum.id(1 - product);
      const Sizes& x = call.value(0).sizes;
      const auto rows = leading_axes(x, view.meta(factor).sizes);
      if (!rows || leading_axes(x, view.meta(shift).sizes) != rows) continue;
      return Matched{
          {ModulatedConfig{x.back(), call.number(4, 1e-5)}, {call.id(0), factor, shift}, {0}},
          {*norm, *times}};
    }
  }
  return std::nullopt;
}

// -------------------------------------------------------------------------------- strategies

/// A wide tensor with axes of size 1 behind N, up to the rank of x.
Tensor aligned(const Tensor& t, int64_t rank) {
  Sizes sizes = t.sizes().vec();
  sizes.insert(sizes.begin() + 1, static_cast<size_t>(rank - t.dim()), 1);
  return t.reshape(sizes);
}

Tensors fused(const ModulatedConfig& c, const WideCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor y = std::get<0>(at::native_layer_norm(x, {c.d}, {}, {}, c.eps));
  return {at::addcmul(aligned(call.inputs[2], x.dim()), y, aligned(call.inputs[1], x.dim()))};
}

/// The engine's own kernel, which reads each row once and modulates the result.
Tensors one_pass(const ModulatedConfig& c, const WideCall& call) {
  const auto rows = [&](const Tensor& t) { return t.reshape({-1, c.d}); };
  return {norms::layer_norm(call.inputs[0].contiguous(), rows(call.inputs[1]), rows(call.inputs[2]),
                            c.d, c.eps, /*rms=*/false)};
}

// ------------------------------------------------------------------------------ registration

Target target() {
  Target t;
  t.name = "ada_layer_norm_zero_single";
  t.family = "normalization";
  t.summary = "Layer normalisation, scaled and shifted by a conditioning";
  t.formula = "y = LN(x) (1 + scale) + shift, gate;  NBTD, NBE -> NBTD, NBD";
  t.source = "FLUX, AdaLayerNormZeroSingle";
  t.network = network;
  t.axes = {{"B", "samples"},
            {"T", "steps of a sequence", {}, "none: x is [B, D]"},
            {"D", "features"},
            {"E", "features of the conditioning"}};
  const Shape quick{"B=8 T=128 D=256 E=256"};
  t.sweeps["quick"] = {quick_n(), {quick}};
  t.sweeps["full"] = {full_n(), {quick}};
  t.sweeps["ci"] = {{4, 16}, {"B=4 T=32 D=64 E=48"}};
  t.flops = [](const Shape& s) {
    const double d = double(s["D"]), b = double(s["B"]);
    return b * (6.0 * d * double(s["E"]) + 10.0 * d * double(s.get("T", 1)));
  };
  t.tolerance = {{at::kFloat, 5e-5}, {at::kDouble, 1e-11}};
  t.tolerance_reason = "statistics of D terms, scaled by a dot product of E terms";
  t.odd_shapes = {"B=3 D=7 E=5", "B=1 T=1 D=3 E=2", "B=2 T=5 D=37 E=3"};
  t.refusals = {
      {"B=1 T=0 D=2 E=2", "[ada_layer_norm_zero_single] T: got 0, expected at least 1; try T=1"},
      {"B=1 D=2 E=0", "[ada_layer_norm_zero_single] E: got 0, expected at least 1; try E=1"}};
  t.oracle = R"(
# Spelled out from the paper's formulas, without torch's layer_norm and chunk.
x, emb = t['x'], t['emb'] * torch.sigmoid(t['emb'])
w, b = t['linear.weight'].split(a.D), t['linear.bias'].split(a.D)
shift, scale, gate = (emb @ w[k].T + b[k] for k in range(3))
normal = (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-6)
if a.T:
    shift, scale = shift[:, None], scale[:, None]
y = [normal * (1 + scale) + shift, gate]
)";
  t.patterns = {{"aten::add", match}};
  t.strategies = {
      strategy<ModulatedConfig>("one_pass",
                                "a row is read once, modulated on the way out, inference", one_pass,
                                {}, {"wide::layer_norm"}),
      strategy<ModulatedConfig>("fused", "one normalisation, then one multiply-add", fused)};
  t.parameter_inputs = {false, false, false};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::ada_layer_norm_zero_single_target
