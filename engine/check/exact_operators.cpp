#include "engine/check/exact_operators.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace wide {
namespace {

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const std::optional<Tensor>& bias, bool causal, std::optional<double> scale) {
  const bool grouped = query.size(-3) != key.size(-3);
  return std::get<0>(at::_scaled_dot_product_attention_math(query, key, value, bias, 0, causal, {},
                                                            scale, grouped));
}

/// The chain rule, with the softmax computed again.
std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
    const std::optional<Tensor>& bias, bool causal, std::optional<double> given) {
  const double scale = given.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  Tensor scores = at::matmul(query, key.mT()).mul(scale);
  if (bias) scores = scores + *bias;
  if (causal)
    scores = scores.masked_fill(at::ones_like(scores, at::kBool).triu(1),
                                -std::numeric_limits<double>::infinity());
  const Tensor share = at::_safe_softmax(scores, -1);
  const Tensor of_scores =
      at::_softmax_backward_data(at::matmul(grad, value.mT()), share, -1, scores.scalar_type());
  return {at::matmul(of_scores, key).mul(scale), at::matmul(of_scores.mT(), query).mul(scale),
          at::matmul(share.mT(), grad), bias ? of_scores.sum_to_size(bias->sizes()) : Tensor()};
}

Tensor strided(const Tensor& made, at::IntArrayRef strides) {
  return at::empty_strided(made.sizes(), strides, made.options()).copy_(made);
}

TORCH_LIBRARY(wide_exact, m) {
  m.def(
      "attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool is_causal, "
      "float? scale) -> Tensor",
      attention);
  m.def(
      "attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, "
      "Tensor? attn_bias, bool is_causal, float? scale) -> (Tensor, Tensor, Tensor, Tensor)",
      attention_backward);
  m.def("strided(Tensor made, int[] strides) -> Tensor", strided);
}

c10::OperatorHandle named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

/// The fused operator's argument of this name; None where it has none.
Argument argument(const Node& node, const std::string& name) {
  const auto at = node.op.schema().argumentIndexWithName(name);
  if (!at) return Argument::of(IValue());
  const Argument& found = node.arguments[static_cast<size_t>(*at)];
  const bool missing = found.kind == Argument::Kind::value && found.values[0] == kNone;
  return missing ? Argument::of(IValue()) : found;
}

/// Appends the fused attention `node` as one of the operators above.
void add_exact(Program& program, const Node& node) {
  const bool flash = node.op.schema().argumentIndexWithName("grad_out_").has_value();
  const Argument grad = argument(node, flash ? "grad_out_" : "grad_out");
  const bool backward = grad.kind == Argument::Kind::value;
  Node made = node;
  made.op = named(backward ? "wide_exact::attention_backward" : "wide_exact::attention");
  made.arguments.clear();
  if (backward) made.arguments.push_back(grad);
  for (const char* name : {"query", "key", "value", "attn_bias", "is_causal", "scale"})
    made.arguments.push_back(argument(node, name));
  // A forward's other results are for its own gradient.
  const Argument none = Argument::of(IValue());
  made.results.resize(backward ? 4 : 1, none);
  // Readers may view a result, so it gets the fused operator's strides.
  std::vector<Node> laid_out;
  for (Argument& result : made.results) {
    const ValueId id = result.kind == Argument::Kind::value ? result.values[0] : kNone;
    result = none;
    if (id == kNone) continue;
    result = Argument::of_value(program.add_value(program.value(id)));
    laid_out.push_back(node);
    laid_out.back().op = named("wide_exact::strided");
    laid_out.back().arguments = {result, Argument::of(program.value(id).strides)};
    laid_out.back().results = {Argument::of_value(id)};
  }
  program.nodes.push_back(std::move(made));
  program.nodes.insert(program.nodes.end(), laid_out.begin(), laid_out.end());
}

bool is_fused(const Node& node) {
  const std::string& name = node.op.schema().name();
  if (name.find("_for_cpu") != std::string::npos) return false;
  for (const char* kind : {"efficient", "flash", "cudnn"})
    if (name.rfind(fmt::format("aten::_scaled_dot_product_{}_attention", kind), 0) == 0)
      return argument(node, "dropout_p").constant.toDouble() == 0;
  return false;
}

}  // namespace

Program in_exact_operators(const Program& program) {
  if (std::ranges::none_of(program.nodes, is_fused)) return program;
  Program made = program;
  made.nodes.clear();
  made.regions.clear();  // regions hold node indices
  for (const Node& node : program.nodes) {
    if (is_fused(node))
      add_exact(made, node);
    else
      made.nodes.push_back(node);
  }
  return made;
}

}  // namespace wide
