#pragma once
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "engine/train/optimizer/list_step.h"
#include "engine/train/optimizer/tensor_step.h"
#include "primitives/optimizers/formula.h"

namespace wide {

/// Positions of Adam's and AdamW's hyperparameters.
enum { kAdamLr, kAdamWeightDecay, kAdamBeta1, kAdamBeta2, kAdamEps };

/// m = m + (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g²;
/// p = p - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
/// with weight decay `decoupled`: first p = p (1 - lr weight_decay); else g = ∇ + weight_decay p.
template <bool decoupled, class T>
WIDE_FORMULA void adam_step(const ParameterStep<T>& s) {
  const double t = double(s.step), lr = s.hyper[kAdamLr], decay = s.hyper[kAdamWeightDecay];
  const double beta1 = s.hyper[kAdamBeta1], beta2 = s.hyper[kAdamBeta2];
  const T rate = T(lr / (1 - std::pow(beta1, t)));
  const T corrected = T(1 / std::sqrt(1 - std::pow(beta2, t)));
  const T new1 = T(1 - beta1), old2 = T(beta2), new2 = T(1 - beta2);
  const T eps = T(s.hyper[kAdamEps]), scale = s.gradient_scale;
  const T kept = decoupled ? T(1 - lr * decay) : T(1);
  const T added = decoupled ? T(0) : T(decay);
  T* p = s.parameter;
  const T* g = s.gradient;
  T *m = s.state[0], *v = s.state[1];
#pragma omp simd
  for (int64_t i = 0; i < s.count; ++i) {
    const T gradient = decoupled ? scale * g[i] : scale * g[i] + added * p[i];
    const T first = m[i] + new1 * (gradient - m[i]);
    const T second = old2 * v[i] + new2 * gradient * gradient;
    m[i] = first;
    v[i] = second;
    p[i] = kept * p[i] - rate * (first / (std::sqrt(second) * corrected + eps));
  }
}

/// The step by one of ATen's fused kernels, `at::_fused_adam_` or `at::_fused_adamw_`.
template <class Fused>
void adam_lists(const ListStep& s, const Fused& fused) {
  const std::vector<at::Tensor> steps(
      s.parameters.size(),
      at::full({}, static_cast<double>(s.step), s.parameters.front().options().dtype(at::kFloat)));
  const auto with = [&](const auto& lr) {
    fused(s.parameters, s.gradients, s.state[0], s.state[1], /*max_exp_avg_sqs=*/at::TensorList(),
          steps, lr, s.hyper[kAdamBeta1], s.hyper[kAdamBeta2], s.hyper[kAdamWeightDecay],
          s.hyper[kAdamEps], /*amsgrad=*/false, /*maximize=*/false);
  };
  if (s.rate.defined())
    with(s.rate);
  else
    with(s.hyper[kAdamLr]);
}

/// `adam_step` by tensor operators, for devices.
template <bool decoupled>
std::vector<at::Tensor> adam_tensors(const TensorStep& s) {
  const at::Tensor lr = s.number(kAdamLr), decay = s.number(kAdamWeightDecay);
  const at::Tensor beta1 = s.number(kAdamBeta1), beta2 = s.number(kAdamBeta2), &p = s.parameter;
  const at::Tensor rate = s.beside(lr / at::rsub(s.to_the_step(beta1), 1));
  const at::Tensor corrected = s.beside(at::rsub(s.to_the_step(beta2), 1).rsqrt());
  const at::Tensor g = decoupled ? s.gradient : s.gradient + s.beside(decay) * p;
  const at::Tensor first = s.state[0] + s.beside(at::rsub(beta1, 1)) * (g - s.state[0]);
  const at::Tensor second = s.beside(beta2) * s.state[1] + s.beside(at::rsub(beta2, 1)) * g * g;
  const at::Tensor kept = decoupled ? s.beside(at::rsub(lr * decay, 1)) * p : p;
  return {kept - rate * (first / (second.sqrt() * corrected + s.beside(s.number(kAdamEps)))), first,
          second};
}

/// `decay`: the line that applies weight decay. Without bias correction, as late in a training.
inline std::string adam_in_python(const std::string& name, const std::string& decay) {
  return fmt::format(R"PY(import torch
def fused(group, lr, h):
    return torch.optim.{}(group, lr=lr, betas=(h['beta1'], h['beta2']), eps=h['eps'],
                          weight_decay=h['weight_decay'], fused=True)
def update(p, g, lr, h, first, second):
    {}
    first = first.lerp(g, 1 - h['beta1'])
    second = second * h['beta2'] + (1 - h['beta2']) * g * g
    return p - lr * first / (second.sqrt() + h['eps'])
)PY",
                     name, decay);
}

inline std::vector<Hyperparameter> adam_hyperparameters(double weight_decay) {
  return {{"lr", 1e-3, 0, 1e300, "learning rate"},
          {"weight_decay", weight_decay, 0, 1e300, "pulls parameters to 0"},
          {"beta1", 0.9, 0, 0.999999999, "decay of the first moment"},
          {"beta2", 0.999, 0, 0.999999999, "decay of the second moment"},
          {"eps", 1e-8, 0, 1e300, "added to the root of the second moment"}};
}

}  // namespace wide
