#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "engine/train/optimizer/optimizer.h"

namespace wide {

/// A step of one parameter of N models by ATen operators that return new tensors, for devices, on
/// which the formula cannot run.
struct TensorStep {
  at::Tensor parameter, gradient;      // float32 or float64; [N, ...], or one model's
  std::vector<at::Tensor> state = {};  // by `Optimizer::state`, without unused ones
  at::Tensor hyper;                    // float64: [N, H], or [H]
  int64_t step = 1;                    // counted from 1
  at::Tensor steps = {};               // float64 [N]: each model's, instead of `step`

  /// A hyperparameter, float64: one number per model.
  at::Tensor number(int64_t k) const;
  /// One number per model in the parameter's dtype, shaped to broadcast against it.
  at::Tensor beside(const at::Tensor& numbers) const;
  /// `number` to the power of the step.
  at::Tensor to_the_step(const at::Tensor& number) const;
  /// For each model `first` in its first step, else `later`.
  at::Tensor at_first(const at::Tensor& first, const at::Tensor& later) const;
};

}  // namespace wide
