#include "engine/widen/gradients.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/error.h"

namespace wide {

namespace {

/// Returns `call()`; for an operator without a gradient it throws Unsupported, in one line.
template <class Call>
auto with_reason(const std::string& thing, const Call& call) {
  try {
    return call();
  } catch (const c10::Error& e) {
    const std::string text = e.what_without_backtrace();
    if (text.find("not implemented") == std::string::npos &&
        text.find("does not support automatic differentiation") == std::string::npos)
      throw;
    throw Unsupported(reason(thing, "gradients", text.substr(0, text.find('\n')),
                             "operators with a gradient", "another network or strategy"));
  }
}

}  // namespace

Tensors differentiate(const std::string& thing, const Tensors& outputs, const Tensors& of,
                      const Tensors& cotangents) {
  return with_reason(thing, [&] {
    return torch::autograd::grad(outputs, of, cotangents, /*retain_graph=*/std::nullopt,
                                 /*create_graph=*/false, /*allow_unused=*/true);
  });
}

WithGradients::WithGradients(Program single, std::vector<size_t> of)
    : single_(std::move(single)), form_(single_), of_(std::move(of)) {
  for (size_t k = 0; k < single_.outputs.size(); ++k) {
    const Value& output = single_.value(single_.outputs[k]);
    if (!at::isFloatingType(output.dtype) && !at::isComplexType(output.dtype)) {
      cotangents_.push_back(-1);
      continue;
    }
    Value cotangent = output;
    cotangent.role = Role::input;
    cotangent.name = fmt::format("cotangent.{}", k);
    cotangent.constant = Tensor();
    cotangents_.push_back(static_cast<int64_t>(form_.bound.size()));
    form_.bound.push_back(form_.add_value(std::move(cotangent)));
  }
  for (const size_t i : of_) form_.outputs.push_back(form_.bound[i]);  // as large as its gradient
}

std::vector<WideValue> WithGradients::evaluate(int64_t n, const std::vector<WideValue>& bound,
                                               const WidenOptions& options, Coverage* coverage) {
  for (const Node& node : single_.nodes)
    if (node.name().rfind("aten::rrelu_with_noise", 0) == 0)
      throw Unsupported(reason("backward", "operator", "rrelu, whose slopes are not kept",
                               "operators with a gradient", "leaky_relu"));
  const at::AutoGradMode grad(true);
  std::vector<WideValue> values(bound.begin(),
                                bound.begin() + static_cast<std::ptrdiff_t>(single_.bound.size()));
  Tensors of;
  for (const size_t i : of_)
    of.push_back(values[i].tensor = values[i].tensor.detach().requires_grad_());
  WidenOptions differentiable = options;
  differentiable.differentiable = true;
  const std::vector<WideValue> made = with_reason(
      "backward", [&] { return evaluate_wide(single_, n, values, differentiable, coverage); });
  Tensors outputs, cotangents;
  differentiable_.assign(cotangents_.size(), false);
  for (size_t k = 0; k < cotangents_.size(); ++k) {
    if (cotangents_[k] < 0 || !made[k].tensor.requires_grad()) continue;
    differentiable_[k] = true;
    outputs.push_back(made[k].wide ? made[k].tensor : expanded(n, made[k].tensor));
    cotangents.push_back(bound[static_cast<size_t>(cotangents_[k])].tensor);
  }
  Tensors gradients(of.size());
  if (!outputs.empty()) gradients = differentiate("backward", outputs, of, cotangents);
  std::vector<WideValue> results;
  const auto add = [&](const WideValue& v) { results.push_back({v.tensor.detach(), v.wide}); };
  for (size_t k = 0; k < cotangents_.size(); ++k) add(made[k]);
  reached_.assign(of.size(), false);
  for (size_t k = 0; k < of.size(); ++k) {
    reached_[k] = gradients[k].defined();
    if (!reached_[k]) gradients[k] = at::zeros_like(of[k]);
    const bool own = bound[of_[k]].wide;
    add({own ? gradients[k] : gradients[k].unsqueeze(0), true});
  }
  for (size_t k = cotangents_.size(); k < made.size(); ++k) add(made[k]);
  return results;
}

}  // namespace wide
