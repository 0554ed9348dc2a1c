// adam: moments of the gradient, their bias taken out; weight decay is part of the gradient
// source: torch.optim.Adam
#include "primitives/optimizers/adam.h"

namespace wide {
namespace {

template <class T>
WIDE_FORMULA void adam(const ParameterStep<T>& s) {
  adam_step<false, T>(s);
}

WIDE_OPTIMIZER_STEPS(adam)

WIDE_OPTIMIZER({.name = "adam",
                .summary = "adaptive moments; weight decay is part of the gradient",
                .source = "torch.optim.Adam",
                .hyperparameters = adam_hyperparameters(0),
                .state = {{"exp_avg", ""}, {"exp_avg_sq", ""}},
                .step_f32 = adam_f32,
                .step_f64 = adam_f64});

}  // namespace
}  // namespace wide
