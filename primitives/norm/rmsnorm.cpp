// rmsnorm: y = x / sqrt(mean(x^2) + eps) * weight over the last axes
// shapes: x [N,B,..,D], weight [N,D] -> y [N,B,..,D]
// source: torch.nn.RMSNorm; Zhang & Sennrich 2019. Also claimed where it is written out by hand, as
// most language models do.
#include <ATen/ATen.h>

#include <cfloat>

#include "engine/widen/describe.h"
#include "primitives/kernels/norm/norms.h"

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
  return as_function(net);
}

// ------------------------------------------------------------------------------------ claims

std::optional<Claimed> claim(const CallView& call, std::vector<int> results) {
  if (!call.is_tensor(0)) return std::nullopt;  // x, normalized shape, weight, eps
  std::optional<double> eps;
  if (!call.constant(3).isNone()) eps = call.number(3, 0.0);
  return Claimed{RmsNormConfig{call.ints(1), eps}, {call.id(0), call.id(2)}, std::move(results)};
}

/// x and eps of a value that is x / sqrt(mean(x^2) + eps), and the nodes that compute it.
struct Root {
  ValueId x = kNone;
  double eps = 0;
  std::vector<size_t> nodes;
};

/// mean(x^2, last axis, keepdim) + eps.
std::optional<Root> mean_square(const PatternView& view, ValueId id) {
  const auto sum = view.made_by(id, "aten::add");
  if (!sum || !view.call(*sum).is_tensor(0)) return std::nullopt;
  const auto eps = view.number(*sum, 1);
  const auto mean = view.made_by(view.call(*sum).id(0), "aten::mean");
  if (!eps || !mean || view.node(*mean).arguments.size() < 3) return std::nullopt;
  const CallView mean_call = view.call(*mean);
  const auto rank = static_cast<int64_t>(mean_call.value(0).sizes.size());
  const Sizes axes = mean_call.ints(1);
  if (axes.size() != 1 || (axes[0] != -1 && axes[0] != rank - 1) || !mean_call.flag(2))
    return std::nullopt;
  const ValueId squared = mean_call.id(0);
  if (const auto power = view.made_by(squared, "aten::pow"))
    if (view.call(*power).is_tensor(0) && view.number(*power, 1) == 2.0)
      return Root{view.call(*power).id(0), *eps, {*sum, *mean, *power}};
  if (const auto product = view.made_by(squared, "aten::mul"))
    if (view.call(*product).is_tensor(1) && view.call(*product).id(0) == view.call(*product).id(1))
      return Root{view.call(*product).id(0), *eps, {*sum, *mean, *product}};
  return std::nullopt;
}

/// 1 / sqrt(mean square): rsqrt, a power, or the reciprocal of a root.
std::optional<Root> inverse_root(const PatternView& view, ValueId id) {
  std::optional<Root> root;
  const auto extend = [&](size_t node, ValueId inner) {
    root = mean_square(view, inner);
    if (root) root->nodes.push_back(node);
  };
  if (const auto node = view.made_by(id, "aten::rsqrt")) {
    extend(*node, view.call(*node).id(0));
  } else if (const auto power = view.made_by(id, "aten::pow")) {
    if (view.number(*power, 1) == -0.5) extend(*power, view.call(*power).id(0));
  } else if (const auto one_over = view.made_by(id, "aten::reciprocal")) {
    if (const auto square = view.made_by(view.call(*one_over).id(0), "aten::sqrt")) {
      extend(*square, view.call(*square).id(0));
      if (root) root->nodes.push_back(*one_over);
    }
  }
  return root;
}

/// Matches node `at` as x * inverse root or x / root; the result's nodes do not include `at`.
std::optional<Root> normalized(const PatternView& view, size_t at) {
  const CallView call = view.call(at);
  if (!call.is_tensor(0) || !call.is_tensor(1)) return std::nullopt;
  const std::string& op = view.node(at).op.schema().operator_name().name;
  if (op == "aten::div") {
    const auto square = view.made_by(call.id(1), "aten::sqrt");
    auto root = square ? mean_square(view, view.call(*square).id(0)) : std::nullopt;
    if (!root || root->x != call.id(0)) return std::nullopt;
    root->nodes.push_back(*square);
    return root;
  }
  for (const size_t x : {size_t{0}, size_t{1}})
    if (auto root = inverse_root(view, call.id(1 - x)); root && root->x == call.id(x)) return root;
  return std::nullopt;
}

Matched matched(const PatternView& view, Root root, ValueId weight) {
  return {{RmsNormConfig{{view.meta(root.x).sizes.back()}, root.eps}, {root.x, weight}, {0}},
          std::move(root.nodes)};
}

std::optional<Matched> match(const PatternView& view, size_t at) {
  if (auto root = normalized(view, at)) return matched(view, std::move(*root), kNone);
  const CallView call = view.call(at);
  if (!call.is_tensor(0) || !call.is_tensor(1)) return std::nullopt;
  for (const size_t y : {size_t{0}, size_t{1}})
    for (const char* op : {"aten::mul", "aten::div"}) {
      const auto inner = view.made_by(call.id(y), op);
      auto root = inner ? normalized(view, *inner) : std::nullopt;
      const Sizes& weight = view.meta(call.id(1 - y)).sizes;
      if (!root || weight != Sizes{view.meta(root->x).sizes.back()}) continue;
      root->nodes.push_back(*inner);
      return matched(view, std::move(*root), call.id(1 - y));
    }
  return std::nullopt;
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
  t.sweeps["quick"] = {quick_n(), {{{"B", 8}, {"T", 128}, {"D", 256}}}};
  t.sweeps["full"] = {full_n_100(), {{{"B", 8}, {"T", 128}, {"D", 256}}}};
  t.sweeps["ci"] = {{4, 16}, {{{"B", 4}, {"T", 64}, {"D", 128}}}};
  t.flops = [](const Shape& s) { return 5.0 * product(s, {"B", "T", "D"}); };
  t.tolerance = {{at::kFloat, 2e-5}, {at::kDouble, 1e-11}};
  t.tolerance_reason = "the mean square sums D terms in single precision";
  t.odd_shapes = {{{"B", 3}, {"T", 1}, {"D", 7}},
                  {{"B", 1}, {"T", 5}, {"D", 37}, {"byhand", 1}},
                  {{"B", 2}, {"T", 3}, {"D", 5}, {"affine", 0}},
                  {{"B", 2}, {"T", 3}, {"D", 5}, {"affine", 0}, {"byhand", 1}}};
  t.refusals = {
      {{{"B", 1}, {"T", 1}, {"D", 0}}, "[rmsnorm] D: got 0, expected at least 1; try D=1"}};
  t.oracle = "y = load(nn.RMSNorm(a.D, eps=1e-5, elementwise_affine=bool(a.affine)))(t['x'])";
  t.claims = {{"aten::rms_norm", [](const CallView& c) { return claim(c, {0}); }},
              {"aten::_fused_rms_norm", [](const CallView& c) {
                 return claim(c, {0, -1});
               }}};
  t.patterns = {{"aten::mul", match}, {"aten::div", match}};
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
