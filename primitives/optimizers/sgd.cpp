// sgd: g = ∇ + weight_decay p;  b = momentum b + (1 - dampening) g, at first g;
//      p = p - lr (nesterov ? g + momentum b : b)
// source: torch.optim.SGD
#include <ATen/ATen.h>

#include "engine/train/optimizer/list_step.h"
#include "engine/train/optimizer/tensor_step.h"
#include "primitives/optimizers/formula.h"

namespace wide::sgd_optimizer {
namespace {

enum { kLr, kWeightDecay, kMomentum, kNesterov, kDampening };

template <class T>
WIDE_FORMULA void sgd(const ParameterStep<T>& s) {
  const T lr = T(s.hyper[kLr]), decay = T(s.hyper[kWeightDecay]), scale = s.gradient_scale;
  const T momentum = T(s.hyper[kMomentum]);
  T* p = s.parameter;
  const T* g = s.gradient;
  T* b = s.state[0];
  if (momentum == 0 || b == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < s.count; ++i) p[i] -= lr * (scale * g[i] + decay * p[i]);
    return;
  }
  // The first step with momentum (Optimizer::counted_with) uses the gradient without dampening.
  const T kept = s.step == 1 ? T(0) : momentum;
  const T added = s.step == 1 ? T(1) : T(1 - s.hyper[kDampening]);
  const T of_gradient = s.hyper[kNesterov] != 0 ? T(1) : T(0);
  const T of_buffer = s.hyper[kNesterov] != 0 ? momentum : T(1);
#pragma omp simd
  for (int64_t i = 0; i < s.count; ++i) {
    const T gradient = scale * g[i] + decay * p[i];
    const T buffer = kept * b[i] + added * gradient;
    b[i] = buffer;
    p[i] -= lr * (of_gradient * gradient + of_buffer * buffer);
  }
}

WIDE_OPTIMIZER_STEPS(sgd)

void sgd_lists(const ListStep& s) {
  const auto with = [&](const auto& lr) {
    at::_fused_sgd_(s.parameters, s.gradients, s.state[0], s.hyper[kWeightDecay],
                    s.hyper[kMomentum], lr, s.hyper[kDampening], s.hyper[kNesterov] != 0,
                    /*maximize=*/false, /*is_first_step=*/s.step == 1);
  };
  if (s.rate.defined())
    with(s.rate);
  else
    with(s.hyper[kLr]);
}

std::vector<at::Tensor> sgd_tensors(const TensorStep& s) {
  const at::Tensor& p = s.parameter;
  const at::Tensor lr = s.beside(s.number(kLr));
  const at::Tensor g = s.gradient + s.beside(s.number(kWeightDecay)) * p;
  if (s.state.empty()) return {p - lr * g};
  const at::Tensor momentum = s.beside(s.number(kMomentum)), none = momentum == 0;
  const at::Tensor damped = s.beside(at::rsub(s.number(kDampening), 1)) * g;
  const at::Tensor moved = s.at_first(g, momentum * s.state[0] + damped);
  const at::Tensor ahead =
      at::where(s.beside(s.number(kNesterov)) != 0, g + momentum * moved, moved);
  return {p - lr * at::where(none, g, ahead), at::where(none, s.state[0], moved)};
}

std::string conflict(const double* hyper) {
  if (hyper[kNesterov] == 0 || (hyper[kMomentum] > 0 && hyper[kDampening] == 0)) return "";
  return "nesterov without momentum, or with dampening";
}

constexpr const char* kInPython = R"PY(import torch
def fused(group, lr, h):
    return torch.optim.SGD(group, lr=lr, weight_decay=h['weight_decay'], fused=True)
def update(p, g, lr, h):
    return p - lr * (g + h['weight_decay'] * p)
)PY";

WIDE_OPTIMIZER({.name = "sgd",
                .summary = "stochastic gradient descent, with momentum and Nesterov's",
                .source = "torch.optim.SGD",
                .hyperparameters = {{"lr", 1e-3, 0, 1e300, "learning rate"},
                                    {"weight_decay", 0, 0, 1e300, "added to the gradient, times p"},
                                    {"momentum", 0, 0, 1e300, "share of the last direction"},
                                    {"nesterov", 0, 0, 1, "1: looks ahead"},
                                    {"dampening", 0, -1e300, 1e300, "of the new gradient"}},
                .state = {{"momentum_buffer", "momentum"}},
                .step_f32 = sgd_f32,
                .step_f64 = sgd_f64,
                .step_lists = sgd_lists,
                .step_tensors = sgd_tensors,
                .conflict = conflict,
                .python = kInPython});

}  // namespace
}  // namespace wide::sgd_optimizer
