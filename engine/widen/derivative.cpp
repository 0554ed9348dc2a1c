#include "engine/widen/derivative.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/error.h"
#include "engine/record/recorded_constant.h"
#include "engine/train/optimizer/list_step.h"
#include "engine/train/optimizer/optimizer_operator.h"
#include "engine/widen/gradients.h"

namespace wide {
namespace {

constexpr double kRate = 1e-2;     // the largest learning rate
constexpr int64_t kStep = 100000;  // a late step, where bias corrections are 1

bool is_real(const TensorSpec& spec) { return at::isFloatingType(spec.dtype); }

}  // namespace

Derivative::Derivative(Network inner, Program single, const Optimizer* step)
    : inner_(std::move(inner)), single_(std::move(single)), step_(step), tensors_(inner_.tensors) {
  std::vector<size_t> parameters;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!is_real(tensors_[i]) || tensors_[i].role == Role::buffer) continue;
    const bool parameter = tensors_[i].role == Role::parameter;
    if (step_ && !parameter) continue;
    of_.push_back(i);
    if (step_) tensors_[i].role = Role::input;
  }
  cotangents_ = tensors_.size();
  for (size_t k = 0; k < single_.outputs.size(); ++k) {
    const Value& value = single_.value(single_.outputs[k]);
    if (!at::isFloatingType(value.dtype)) continue;
    outputs_.push_back(k);
    tensors_.push_back({fmt::format("cotangent.{}", k), Role::input, value.sizes});
  }
  if (!step_) return;
  rate_ = tensors_.size();
  tensors_.push_back({"learning_rate", Role::input, {}, at::kFloat, Fill::uniform, kRate});
  std::vector<double> defaults;
  for (size_t k = 1; k < step_->hyperparameters.size(); ++k)
    defaults.push_back(step_->hyperparameters[k].value);
  defaults_ = at::tensor(defaults, at::TensorOptions().dtype(at::kDouble));
  state_ = tensors_.size();
  for (size_t k = 0; k < of_.size(); ++k) feedback_.emplace_back(k, of_[k]);
  for (const OptimizerState& state : step_->state) {
    if (!state.only_with.empty()) continue;  // absent at the default of 0
    ++moments_;
    for (const size_t i : of_) {
      feedback_.emplace_back(feedback_.size(), tensors_.size());
      // State as in the middle of a training: with zero mean squares a step is the gradient's sign.
      const bool square = state.name.find("sq") != std::string::npos;
      tensors_.push_back({fmt::format("{}.{}", state.name, tensors_[i].name), Role::input,
                          tensors_[i].sizes, at::kFloat, square ? Fill::positive : Fill::normal,
                          square ? 1.0 : 0.1});
    }
  }
}

DerivativeLayout Derivative::layout() const {
  DerivativeLayout at{of_, outputs_, {}, step_, rate_, state_};
  for (size_t k = 0; k < outputs_.size(); ++k) at.cotangents.push_back(cotangents_ + k);
  return at;
}

Tensors Derivative::gradients(const Tensors& bound, const Forward& forward) const {
  std::vector<WideValue> inner;
  for (size_t i = 0; i < inner_.tensors.size(); ++i) inner.push_back({bound[i], true});
  Tensors cotangents(outputs_.empty() ? 0 : outputs_.back() + 1);
  for (size_t k = 0; k < outputs_.size(); ++k) cotangents[outputs_[k]] = bound[cotangents_ + k];
  const ForwardAndBack pass = forward_and_back(inner_.name, inner, of_, cotangents,
                                               [&](const std::vector<WideValue>& values) {
                                                 Tensors tensors;
                                                 for (const WideValue& v : values)
                                                   tensors.push_back(v.tensor);
                                                 std::vector<WideValue> made;
                                                 for (const Tensor& t : forward(tensors))
                                                   made.push_back({t, true});
                                                 return made;
                                               });
  if (std::ranges::find(pass.differentiable, true) == pass.differentiable.end())
    throw Unsupported(reason(inner_.name, "gradients", "no output that depends on a real tensor",
                             "something to differentiate", "--phase forward"));
  return pass.gradients;
}

Tensor Derivative::defaults_on(c10::Device device) const {
  if (device.is_cpu()) return defaults_;
  const std::lock_guard lock(mutex_);
  const Unrecorded made_once;
  if (!elsewhere_.defined() || elsewhere_.device() != device) elsewhere_ = defaults_.to(device);
  return elsewhere_;
}

Tensors Derivative::step(const Tensors& bound, const Tensors& gradients, int64_t n) const {
  const at::NoGradGuard no_grad;
  const size_t count = of_.size();
  // Each model's hyperparameters: its learning rate, and the defaults.
  const Tensor others = recorded_constant(defaults_on(bound[rate_].device()));
  const Tensor hyper = at::cat(
      {bound[rate_].to(at::kDouble).unsqueeze(-1), n > 0 ? expanded(n, others) : others}, -1);
  Tensors next((1 + moments_) * count);
  for (size_t k = 0; k < count; ++k) {
    Tensors state;
    for (size_t m = 0; m < moments_; ++m) state.push_back(bound[state_ + m * count + k]);
    const Tensors made = optimizer_step(*step_, bound[of_[k]], gradients[k], state, hyper, kStep);
    for (size_t m = 0; m < made.size(); ++m) next[m * count + k] = made[m];
  }
  return next;
}

Tensors Derivative::step_in_place(const Tensors& bound, const Tensors& gradients) const {
  const at::NoGradGuard no_grad;
  const size_t count = of_.size();
  const double* defaults = defaults_.const_data_ptr<double>();
  const bool on_cpu = bound[rate_].is_cpu();
  std::vector<double> hyper{on_cpu ? bound[rate_].item<double>() : kRate};
  hyper.insert(hyper.end(), defaults, defaults + defaults_.numel());
  ListStep list{.hyper = hyper.data(), .step = kStep};
  if (!on_cpu) list.rate = bound[rate_];
  std::vector<Tensors> groups(1 + moments_);  // parameters, then each state tensor
  for (size_t k = 0; k < count; ++k) {
    groups[0].push_back(bound[of_[k]]);
    for (size_t m = 0; m < moments_; ++m) groups[m + 1].push_back(bound[state_ + m * count + k]);
    // Contiguous, as autograd accumulates gradients and the fused kernels need them.
    list.gradients.push_back(gradients[k].contiguous());
  }
  list.parameters = groups[0];
  size_t kept = 0;
  for (const OptimizerState& state : step_->state)
    list.state.push_back(state.only_with.empty() ? groups[++kept] : Tensors());
  list_step(*step_, list);
  Tensors next;
  for (const Tensors& group : groups) next.insert(next.end(), group.begin(), group.end());
  return next;
}

Tensors Derivative::run(const Tensors& bound, const Forward& forward, int64_t n) const {
  const Tensors made = gradients(bound, forward);
  return step_ ? step(bound, made, n) : made;
}

Tensors Derivative::run_in_place(const Tensors& bound) const {
  const Tensors made = gradients(bound, inner_.forward);
  return step_ ? step_in_place(bound, made) : made;
}

std::vector<WideValue> Derivative::evaluate(int64_t n, const std::vector<WideValue>& bound,
                                            const WidenOptions& options, Coverage* coverage) const {
  Tensors tensors;
  for (size_t i = 0; i < bound.size(); ++i) {
    if (!bound[i].wide)
      throw Unsupported(reason(inner_.name, "shared tensor " + tensors_[i].name,
                               "one for all models", "one for each, so that gradients are its own",
                               "--phase forward"));
    tensors.push_back(bound[i].tensor);
  }
  Tensors updates;
  const Forward forward = [&](const Tensors& inner) {
    std::vector<WideValue> values;
    for (const Tensor& t : inner) values.push_back({t, true});
    Tensors outputs;
    for (WideValue& v : evaluate_wide(single_, n, values, options, coverage)) {
      if (!v.wide) v.tensor = expanded(n, v.tensor);
      outputs.push_back(v.tensor);
    }
    const auto real_outputs = static_cast<ptrdiff_t>(single_.outputs.size());
    updates.assign(outputs.begin() + real_outputs, outputs.end());
    outputs.resize(single_.outputs.size());
    return outputs;
  };
  std::vector<WideValue> results;
  for (const Tensor& t : run(tensors, forward, n)) results.push_back({t.detach(), true});
  for (const Tensor& t : updates) results.push_back({t.detach(), true});
  return results;
}

Network phase_network(const Network& inner, const Program& single, const std::string& phase,
                      const std::string& optimizer_name) {
  if (phase == "forward") return inner;
  const bool step = phase == "step";
  const auto derivative = std::make_shared<const Derivative>(
      inner, single,
      !step                    ? nullptr
      : optimizer_name.empty() ? &default_optimizer(DefaultOf::step_phase)
                               : &optimizer(optimizer_name));
  const auto has = [&](auto test) { return std::ranges::any_of(inner.tensors, test); };
  const bool parameters =
      has([](const TensorSpec& t) { return t.role == Role::parameter && is_real(t); });
  const bool inputs = has([](const TensorSpec& t) { return t.role == Role::input && is_real(t); });
  if (!parameters && (step || !inputs))
    throw Unsupported(reason(inner.name, "phase " + phase,
                             step ? "no parameters" : "no real inputs or parameters",
                             "something to differentiate", "--phase forward"));
  Network network = inner;
  network.tensors = derivative->tensors();
  network.aliases.clear();
  network.initial.clear();
  network.derivative = derivative;
  network.forward = [derivative](const Tensors& bound) {
    return derivative->run(bound, derivative->inner().forward, 0);
  };
  if (step) network.training = true;  // the call updates parameters and state
  Network in_place = network;
  in_place.forward = [derivative](const Tensors& bound) { return derivative->run_in_place(bound); };
  in_place.instantiate = nullptr;
  network.instantiate = [in_place](const Tensors& weights) { return bind(in_place, weights); };
  return network;
}

}  // namespace wide
