#pragma once
#include "engine/program.h"
#include "engine/train/optimizer.h"

namespace wide {

/// `wide::optimizer_step`: what a step of `optimizer` makes of a parameter and of its state, as new
/// tensors, so that a recording sees it: the parameter first. For one model, or for N where `hyper`
/// is `[N, H]` instead of `[H]` (float64, in the order of the optimiser's hyperparameters). State
/// that is kept only with some hyperparameter may be left out at the end. On the CPU.
Tensors optimizer_step(const Optimizer& optimizer, const Tensor& parameter, const Tensor& gradient,
                       const Tensors& state, const Tensor& hyper, int64_t step);

}  // namespace wide
