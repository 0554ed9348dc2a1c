// rmsprop: g = ∇ + weight_decay p;  v = alpha v + (1 - alpha) g²;  d = g / (sqrt(v) + eps);
//          p = p - lr d, with momentum b = momentum b + d;  p = p - lr b
// source: torch.optim.RMSprop
#include <ATen/ATen.h>

#include "engine/train/optimizer/list_step.h"
#include "engine/train/optimizer/tensor_step.h"
#include "primitives/optimizers/formula.h"

namespace wide::rmsprop_optimizer {
namespace {

enum { kLr, kWeightDecay, kMomentum, kAlpha, kEps };

template <class T>
WIDE_FORMULA void rmsprop(const ParameterStep<T>& s) {
  const T lr = T(s.hyper[kLr]), decay = T(s.hyper[kWeightDecay]), scale = s.gradient_scale;
  const T momentum = T(s.hyper[kMomentum]), eps = T(s.hyper[kEps]);
  const T kept = T(s.hyper[kAlpha]), added = T(1 - s.hyper[kAlpha]);
  T* p = s.parameter;
  const T* g = s.gradient;
  T *v = s.state[0], *b = s.state[1];
  if (momentum == 0 || b == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < s.count; ++i) {
      const T gradient = scale * g[i] + decay * p[i];
      v[i] = kept * v[i] + added * gradient * gradient;
      p[i] -= lr * (gradient / (std::sqrt(v[i]) + eps));
    }
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < s.count; ++i) {
    const T gradient = scale * g[i] + decay * p[i];
    v[i] = kept * v[i] + added * gradient * gradient;
    b[i] = momentum * b[i] + gradient / (std::sqrt(v[i]) + eps);
    p[i] -= lr * b[i];
  }
}

WIDE_OPTIMIZER_STEPS(rmsprop)

void rmsprop_lists(const ListStep& s) {
  const double decay = s.hyper[kWeightDecay], kept = s.hyper[kAlpha];
  const std::vector<at::Tensor> gradients =
      decay == 0 ? s.gradients : at::_foreach_add(s.gradients, s.parameters, decay);
  const std::vector<at::Tensor>&squares = s.state[0], &buffers = s.state[1];
  at::_foreach_mul_(squares, kept);
  at::_foreach_addcmul_(squares, gradients, gradients, 1 - kept);
  const std::vector<at::Tensor> roots = at::_foreach_sqrt(squares);
  at::_foreach_add_(roots, s.hyper[kEps]);
  if (!buffers.empty()) {
    at::_foreach_mul_(buffers, s.hyper[kMomentum]);
    at::_foreach_addcdiv_(buffers, gradients, roots, 1);
  }
  if (s.rate.defined()) {
    std::vector<at::Tensor> steps =
        buffers.empty() ? at::_foreach_div(gradients, roots) : at::_foreach_mul(buffers, s.rate);
    if (buffers.empty()) at::_foreach_mul_(steps, s.rate);
    at::_foreach_sub_(s.parameters, steps);
  } else if (buffers.empty()) {
    at::_foreach_addcdiv_(s.parameters, gradients, roots, -s.hyper[kLr]);
  } else {
    at::_foreach_add_(s.parameters, buffers, -s.hyper[kLr]);
  }
}

std::vector<at::Tensor> rmsprop_tensors(const TensorStep& s) {
  const at::Tensor& p = s.parameter;
  const at::Tensor g = s.gradient + s.beside(s.number(kWeightDecay)) * p;
  const at::Tensor alpha = s.number(kAlpha), lr = s.beside(s.number(kLr));
  const at::Tensor v = s.beside(alpha) * s.state[0] + s.beside(at::rsub(alpha, 1)) * g * g;
  const at::Tensor direction = g / (v.sqrt() + s.beside(s.number(kEps)));
  if (s.state.size() < 2) return {p - lr * direction, v};
  const at::Tensor momentum = s.beside(s.number(kMomentum)), none = momentum == 0;
  const at::Tensor b = at::where(none, s.state[1], momentum * s.state[1] + direction);
  return {p - lr * at::where(none, direction, b), v, b};
}

WIDE_OPTIMIZER({.name = "rmsprop",
                .summary = "gradients by the root of their mean square",
                .source = "torch.optim.RMSprop",
                .hyperparameters = {{"lr", 1e-2, 0, 1e300, "learning rate"},
                                    {"weight_decay", 0, 0, 1e300, "added to the gradient, times p"},
                                    {"momentum", 0, 0, 1e300, "share of the last direction"},
                                    {"alpha", 0.99, 0, 1, "decay of the mean square"},
                                    {"eps", 1e-8, 0, 1e300, "added to its root"}},
                .state = {{"square_avg", ""}, {"momentum_buffer", "momentum"}},
                .step_f32 = rmsprop_f32,
                .step_f64 = rmsprop_f64,
                .step_lists = rmsprop_lists,
                .step_tensors = rmsprop_tensors});

}  // namespace
}  // namespace wide::rmsprop_optimizer
