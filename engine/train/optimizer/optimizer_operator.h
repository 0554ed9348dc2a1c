#pragma once
#include "engine/program.h"
#include "engine/train/optimizer/optimizer.h"

namespace wide {

/// What a step of `optimizer` makes of a parameter and of its state, as new tensors by one call of
/// an operator, so that a recording sees it: the parameter first. For one model, or for N where
/// `hyper` is `[N, H]` instead of `[H]` (float64, in the order of the optimiser's hyperparameters).
/// State that is kept only with some hyperparameter may be left out at the end. On a device several
/// ATen operators instead of that one.
Tensors optimizer_step(const Optimizer& optimizer, const Tensor& parameter, const Tensor& gradient,
                       const Tensors& state, const Tensor& hyper, int64_t step);

/// Whether a node is a call of that operator.
bool is_optimizer_step(const Node& node);

/// Registers the operator's name and what calls it, at static initialisation, where its kernel is.
using CallOptimizer = Tensors (*)(const Optimizer& optimizer, const Tensor& parameter,
                                  const Tensor& gradient, const Tensors& state, const Tensor& hyper,
                                  int64_t step);
bool set_optimizer_operator(const char* name, CallOptimizer call);

}  // namespace wide
