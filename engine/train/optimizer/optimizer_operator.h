#pragma once
#include "engine/program.h"
#include "engine/train/optimizer/optimizer.h"

namespace wide {

/// A step of `optimizer` by one call of an operator, for recordings: returns the new parameter,
/// then the new state. For one model, or for N if `hyper` is `[N, H]` instead of `[H]` (float64, in
/// the order of the optimiser's hyperparameters). Optional state may be left out at the end. On a
/// device it calls several ATen operators instead.
Tensors optimizer_step(const Optimizer& optimizer, const Tensor& parameter, const Tensor& gradient,
                       const Tensors& state, const Tensor& hyper, int64_t step);

/// Whether a node is a call of that operator.
bool is_optimizer_step(const Node& node);

/// Registers the operator's name and a caller, at static initialisation of the kernel's file.
using CallOptimizer = Tensors (*)(const Optimizer& optimizer, const Tensor& parameter,
                                  const Tensor& gradient, const Tensors& state, const Tensor& hyper,
                                  int64_t step);
bool set_optimizer_operator(const char* name, CallOptimizer call);

}  // namespace wide
