// adamw: Adam with weight decay apart from the gradient
// source: torch.optim.AdamW
#include "primitives/optimizers/adam.h"

namespace wide::adamw_optimizer {
namespace {

template <class T>
WIDE_FORMULA void adamw(const ParameterStep<T>& s) {
  adam_step<true, T>(s);
}

WIDE_OPTIMIZER_STEPS(adamw)

WIDE_OPTIMIZER({.name = "adamw",
                .summary = "adaptive moments; weight decay apart from the gradient",
                .source = "torch.optim.AdamW",
                .hyperparameters = adam_hyperparameters(1e-2),
                .state = {{"exp_avg", ""}, {"exp_avg_sq", ""}},
                .step_f32 = adamw_f32,
                .step_f64 = adamw_f64});

}  // namespace
}  // namespace wide::adamw_optimizer
