// lion: c = beta1 m + (1 - beta1) g;  p = p - lr (sign(c) + weight_decay p);
//       m = beta2 m + (1 - beta2) g
// source: Chen et al., Symbolic Discovery of Optimization Algorithms (2023), algorithm 2
#include <ATen/ATen.h>

#include "engine/train/optimizer/list_step.h"
#include "engine/train/optimizer/tensor_step.h"
#include "primitives/optimizers/formula.h"

namespace wide::lion_optimizer {
namespace {

enum { kLr, kWeightDecay, kBeta1, kBeta2 };

template <class T>
WIDE_FORMULA void lion(const ParameterStep<T>& s) {
  const T lr = T(s.hyper[kLr]), decay = T(s.hyper[kWeightDecay]), scale = s.gradient_scale;
  const T old1 = T(s.hyper[kBeta1]), new1 = T(1 - s.hyper[kBeta1]);
  const T old2 = T(s.hyper[kBeta2]), new2 = T(1 - s.hyper[kBeta2]);
  T* p = s.parameter;
  const T* g = s.gradient;
  T* m = s.state[0];
#pragma omp simd
  for (int64_t i = 0; i < s.count; ++i) {
    const T gradient = scale * g[i];
    const T c = old1 * m[i] + new1 * gradient;
    const T sign = T(c > 0) - T(c < 0);
    m[i] = old2 * m[i] + new2 * gradient;
    p[i] -= lr * (sign + decay * p[i]);
  }
}

WIDE_OPTIMIZER_STEPS(lion)

void lion_lists(const ListStep& s) {
  const std::vector<at::Tensor>& moments = s.state[0];
  const std::vector<at::Tensor> directions = at::_foreach_mul(moments, s.hyper[kBeta1]);
  at::_foreach_add_(directions, s.gradients, 1 - s.hyper[kBeta1]);
  at::_foreach_sign_(directions);
  if (s.rate.defined()) {
    at::_foreach_mul_(s.parameters, at::rsub(s.rate * s.hyper[kWeightDecay], 1));
    at::_foreach_mul_(directions, s.rate);
    at::_foreach_sub_(s.parameters, directions);
  } else {
    at::_foreach_mul_(s.parameters, 1 - s.hyper[kLr] * s.hyper[kWeightDecay]);
    at::_foreach_add_(s.parameters, directions, -s.hyper[kLr]);
  }
  at::_foreach_mul_(moments, s.hyper[kBeta2]);
  at::_foreach_add_(moments, s.gradients, 1 - s.hyper[kBeta2]);
}

std::vector<at::Tensor> lion_tensors(const TensorStep& s) {
  const at::Tensor beta1 = s.number(kBeta1), beta2 = s.number(kBeta2), &m = s.state[0];
  const at::Tensor c = s.beside(beta1) * m + s.beside(at::rsub(beta1, 1)) * s.gradient;
  const at::Tensor taken = c.sign() + s.beside(s.number(kWeightDecay)) * s.parameter;
  return {s.parameter - s.beside(s.number(kLr)) * taken,
          s.beside(beta2) * m + s.beside(at::rsub(beta2, 1)) * s.gradient};
}

WIDE_OPTIMIZER({.name = "lion",
                .summary = "the sign of a momentum",
                .source = "Chen et al. 2023, Symbolic Discovery of Optimization Algorithms",
                .hyperparameters = {{"lr", 1e-4, 0, 1e300, "learning rate"},
                                    {"weight_decay", 0, 0, 1e300, "pulls parameters to 0"},
                                    {"beta1", 0.9, 0, 1, "of the direction that is taken"},
                                    {"beta2", 0.99, 0, 1, "of the momentum that is kept"}},
                .state = {{"exp_avg", ""}},
                .step_f32 = lion_f32,
                .step_f64 = lion_f64,
                .step_lists = lion_lists,
                .step_tensors = lion_tensors});

}  // namespace
}  // namespace wide::lion_optimizer
