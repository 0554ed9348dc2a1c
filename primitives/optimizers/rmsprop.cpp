// rmsprop: g = ∇ + weight_decay p;  v = alpha v + (1 - alpha) g²;  d = g / (sqrt(v) + eps);
//          p = p - lr d, with momentum b = momentum b + d;  p = p - lr b
// source: torch.optim.RMSprop
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
                .step_f64 = rmsprop_f64});

}  // namespace
}  // namespace wide::rmsprop_optimizer
