#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "engine/train/optimizer/optimizer.h"

namespace wide {

/// A step of one parameter of N models by ATen operators that make new tensors: for devices whose
/// memory a formula cannot reach.
struct TensorStep {
  at::Tensor parameter, gradient;      // float32 or float64; [N, ...], or of one model
  std::vector<at::Tensor> state = {};  // by `Optimizer::state`, without what is not kept
  at::Tensor hyper;                    // float64: [N, H], or [H]
  int64_t step = 1;                    // counted from 1
  at::Tensor steps = {};               // float64 [N]: each model's own, in place of `step`

  /// A hyperparameter, float64: one number a model.
  at::Tensor number(int64_t k) const;
  /// One number a model in the dtype of the parameter and shaped to go with it.
  at::Tensor beside(const at::Tensor& numbers) const;
  /// `number` to the power of the step.
  at::Tensor to_the_step(const at::Tensor& number) const;
  /// `first` in a model's first step, else `later`.
  at::Tensor at_first(const at::Tensor& first, const at::Tensor& later) const;
};

}  // namespace wide
