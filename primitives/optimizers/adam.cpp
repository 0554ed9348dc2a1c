// adam: bias-corrected moments of the gradient; weight decay is added to the gradient
// source: torch.optim.Adam
#include "primitives/optimizers/adam.h"

#include <ATen/ops/_fused_adam.h>

namespace wide {
namespace {

template <class T>
WIDE_FORMULA void adam(const ParameterStep<T>& s) {
  adam_step<false, T>(s);
}

WIDE_OPTIMIZER_STEPS(adam)

void adam_lists(const ListStep& step) {
  adam_lists(step, [](auto&&... all) { at::_fused_adam_(all...); });
}

WIDE_OPTIMIZER({.name = "adam",
                .summary = "adaptive moments; weight decay is part of the gradient",
                .source = "torch.optim.Adam",
                .hyperparameters = adam_hyperparameters(0),
                .state = {{"exp_avg", ""}, {"exp_avg_sq", ""}},
                .step_f32 = adam_f32,
                .step_f64 = adam_f64,
                .step_lists = adam_lists,
                .step_tensors = adam_tensors<false>,
                .python = adam_in_python("Adam", "g = g + h['weight_decay'] * p"),
                .default_of = DefaultOf::step_phase});

}  // namespace
}  // namespace wide
