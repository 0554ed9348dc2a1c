// adamw: Adam with weight decay applied to the parameter instead of the gradient
// source: torch.optim.AdamW
#include <ATen/ops/_fused_adamw.h>

#include "primitives/optimizers/adam.h"

namespace wide::adamw_optimizer {
namespace {

template <class T>
WIDE_FORMULA void adamw(const ParameterStep<T>& s) {
  adam_step<true, T>(s);
}

WIDE_OPTIMIZER_STEPS(adamw)

void adamw_lists(const ListStep& step) {
  adam_lists(step, [](auto&&... all) { at::_fused_adamw_(all...); });
}

WIDE_OPTIMIZER({.name = "adamw",
                .summary = "adaptive moments; weight decay apart from the gradient",
                .source = "torch.optim.AdamW",
                .hyperparameters = adam_hyperparameters(1e-2),
                .state = {{"exp_avg", ""}, {"exp_avg_sq", ""}},
                .step_f32 = adamw_f32,
                .step_f64 = adamw_f64,
                .step_lists = adamw_lists,
                .step_tensors = adam_tensors<true>,
                .python = adam_in_python("AdamW", "p = p - lr * h['weight_decay'] * p"),
                .default_of = DefaultOf::training});

}  // namespace
}  // namespace wide::adamw_optimizer
