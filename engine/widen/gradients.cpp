#include "engine/widen/gradients.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <iterator>

#include "engine/device.h"
#include "engine/error.h"
#include "engine/program/written_over.h"

namespace wide {

namespace {

/// PyTorch's messages for an operator without a gradient, or without one on this device for these
/// arguments: cuDNN's recurrent layers in eval mode, CUDA's attention on vmap's tensors.
constexpr const char* kNoGradient[] = {
    "not implemented", "does not support automatic differentiation",
    "RNN backward can only be called in training mode", "is not correctly aligned"};

/// Returns `call()`; for an operator without a gradient it throws Unsupported, in one line.
template <class Call>
auto with_reason(const std::string& thing, const Call& call) {
  try {
    return call();
  } catch (const c10::Error& e) {
    const std::string text = e.what_without_backtrace();
    if (std::none_of(std::begin(kNoGradient), std::end(kNoGradient),
                     [&](const char* known) { return text.find(known) != std::string::npos; }))
      throw;
    throw Unsupported(reason(thing, "gradients", first_line(e), "operators with a gradient",
                             "another network or strategy"));
  }
}

bool is_real(const Value& v) { return at::isFloatingType(v.dtype) || at::isComplexType(v.dtype); }

}  // namespace

std::vector<std::vector<bool>> dependences(const Program& program, const std::vector<size_t>& of) {
  std::vector<std::vector<bool>> all;
  for (const ValueId output : program.outputs) {
    ByValue<bool> leads(program.values.size(), false);
    leads[output] = is_real(program.value(output));
    for (size_t i = program.nodes.size(); i-- > 0;) {
      const Node& node = program.nodes[i];
      bool on_the_way = false;
      for_each_value(node.results, [&](ValueId id) { on_the_way = on_the_way || leads[id]; });
      if (!on_the_way) continue;
      const auto lead = [&](ValueId id) { leads[id] = leads[id] || is_real(program.value(id)); };
      if (is_untracked_write(node.op, node.grad))
        lead(node.arguments[0].values[0]);
      else if (node.grad && node.name() != "aten::detach")
        for_each_value(node.arguments, lead);
    }
    std::vector<bool>& own = all.emplace_back();
    for (const size_t i : of) own.push_back(leads[program.bound[i]]);
  }
  return all;
}

Tensors gradients_of(const Tensors& outputs, const Tensors& of, const Tensors& cotangents) {
  return torch::autograd::grad(outputs, of, cotangents, /*retain_graph=*/std::nullopt,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

ForwardAndBack forward_and_back(
    const std::string& thing, std::vector<WideValue> bound, const std::vector<size_t>& of,
    const Tensors& cotangents,
    const std::function<std::vector<WideValue>(const std::vector<WideValue>&)>& forward) {
  const at::AutoGradMode grad(true);
  Tensors leaves;
  for (const size_t i : of)
    leaves.push_back(bound[i].tensor = bound[i].tensor.detach().requires_grad_());
  ForwardAndBack result;
  result.made = forward(bound);
  Tensors outputs, given;
  result.differentiable.assign(cotangents.size(), false);
  for (size_t k = 0; k < cotangents.size(); ++k) {
    const auto& [made, wide] = result.made[k];
    if (!cotangents[k].defined() || !made.requires_grad()) continue;
    result.differentiable[k] = true;
    const bool same = made.dim() == cotangents[k].dim();  // else all models share the output
    outputs.push_back(same ? made : expanded(cotangents[k].size(0), made));
    given.push_back(cotangents[k]);
  }
  result.gradients.resize(of.size());
  if (!outputs.empty())
    result.gradients = with_reason(thing, [&] { return gradients_of(outputs, leaves, given); });
  for (size_t k = 0; k < of.size(); ++k) {
    result.reached.push_back(result.gradients[k].defined());
    if (!result.reached[k]) result.gradients[k] = at::zeros_like(leaves[k]);
  }
  for (const WideValue& v : result.made) result.attached.push_back(v.tensor.requires_grad());
  for (WideValue& v : result.made) v.tensor = v.tensor.detach();
  for (Tensor& t : result.gradients) t = t.detach();
  return result;
}

WithGradients::WithGradients(std::string thing, Program single, std::vector<size_t> of,
                             Cotangents from, const std::vector<bool>& outputs)
    : thing_(std::move(thing)),
      single_(std::move(single)),
      form_(single_),
      of_(std::move(of)),
      from_(from),
      depends_(dependences(single_, of_)) {
  for (size_t k = 0; k < single_.outputs.size(); ++k) {
    const Value& output = single_.value(single_.outputs[k]);
    const bool asked = outputs.empty() || outputs[k];
    if (!asked || !is_real(output) || from_ == Cotangents::ones) {
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
  for (const size_t i : of_) form_.outputs.push_back(form_.bound[i]);  // has the gradient's sizes
}

Tensors WithGradients::cotangents_for(int64_t n, const std::vector<WideValue>& bound) const {
  Tensors cotangents;
  for (size_t k = 0; k < cotangents_.size(); ++k) {
    const Value& output = single_.value(single_.outputs[k]);
    if (from_ == Cotangents::ones)
      cotangents.push_back(at::ones(wide_sizes(n, output.sizes),
                                    at::TensorOptions(output.dtype).device(output.device)));
    else
      cotangents.push_back(cotangents_[k] < 0 ? Tensor()
                                              : bound[static_cast<size_t>(cotangents_[k])].tensor);
  }
  return cotangents;
}

std::vector<WideValue> WithGradients::own(const std::vector<WideValue>& bound) const {
  return {bound.begin(), bound.begin() + static_cast<std::ptrdiff_t>(single_.bound.size())};
}

std::vector<WideValue> WithGradients::forward(int64_t n, const std::vector<WideValue>& bound,
                                              const WidenOptions& options,
                                              Coverage* coverage) const {
  const at::AutoGradMode grad(true);  // excludes operators without gradients
  std::vector<WideValue> values = own(bound);
  for (const size_t i : of_) values[i].tensor = values[i].tensor.detach().requires_grad_();
  WidenOptions without = options;
  without.no_history = true;
  return with_reason(thing_, [&] { return evaluate_wide(single_, n, values, without, coverage); });
}

std::optional<StepBytes> WithGradients::step_bytes_of_one(const Tensors& bound) const {
  const at::AutoGradMode grad(true);
  Tensors one(bound.begin(), bound.begin() + static_cast<std::ptrdiff_t>(single_.bound.size()));
  Tensors leaves;
  StepBytes bytes;
  for (const size_t i : of_) {
    one[i] = one[i].detach().requires_grad_();
    bytes.results += static_cast<int64_t>(one[i].nbytes());
    leaves.push_back(one[i]);
  }
  for (const ValueId id : single_.outputs) bytes.results += single_.value(id).bytes();
  const auto peak = [&](size_t models, bool backward) {
    return count_peak_bytes(one[0].device(), [&] {
      std::vector<Tensors> made;
      while (made.size() < models) made.push_back(interpret(single_, one));
      if (!backward) return;
      Tensors cotangents;
      std::erase_if(made[0], [](const Tensor& t) { return !t.requires_grad(); });
      for (const Tensor& t : made[0]) cotangents.push_back(at::ones_like(t));
      if (!made[0].empty()) gradients_of(made[0], leaves, cotangents);
    });
  };
  try {
    bytes.saved = peak(2, false) - peak(1, false);  // without what a call frees
    bytes.working = peak(1, true) - bytes.saved;
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return bytes;
}

std::vector<WideValue> WithGradients::evaluate(int64_t n, const std::vector<WideValue>& bound,
                                               const WidenOptions& options, Coverage* coverage) {
  for (const Node& node : single_.nodes)
    if (node.name().rfind("aten::rrelu_with_noise", 0) == 0)
      throw Unsupported(reason(thing_, "operator", "rrelu, whose slopes are not kept",
                               "operators with a gradient", "leaky_relu"));
  const ForwardAndBack pass = forward_and_back(
      thing_, own(bound), of_, cotangents_for(n, bound), [&](const std::vector<WideValue>& values) {
        return with_reason(thing_,
                           [&] { return evaluate_wide(single_, n, values, options, coverage); });
      });
  attached_.clear();
  for (size_t k = 0; k < single_.updates.size(); ++k) {
    const size_t target = single_.bound_at(single_.updates[k].target);
    attached_.push_back(pass.attached[cotangents_.size() + k] &&
                        std::ranges::find(of_, target) == of_.end());
  }
  differentiable_ = pass.differentiable;
  for (size_t k = 0; k < cotangents_.size(); ++k)
    if (from_ == Cotangents::bound && cotangents_[k] < 0)
      differentiable_[k] = std::ranges::find(depends_[k], true) != depends_[k].end();
  reached_ = pass.reached;
  const auto outputs = pass.made.begin() + static_cast<std::ptrdiff_t>(cotangents_.size());
  std::vector<WideValue> results(pass.made.begin(), outputs);
  for (size_t k = 0; k < of_.size(); ++k) {
    const Tensor& gradient = pass.gradients[k];
    results.push_back({bound[of_[k]].wide ? gradient : gradient.unsqueeze(0), true});
  }
  results.insert(results.end(), outputs, pass.made.end());
  return results;
}

}  // namespace wide
