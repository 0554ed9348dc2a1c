#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "engine/train/optimizer/optimizer.h"

namespace wide {

/// A step of one model by operators on whole lists of tensors, as torch.optim makes it with
/// `fused=True` or `foreach=True`. Parameters and state are changed in place.
struct ListStep {
  std::vector<at::Tensor> parameters = {}, gradients = {};
  std::vector<std::vector<at::Tensor>> state = {};  // by `Optimizer::state`; empty if not used
  const double* hyper = nullptr;                    // in the order of `Optimizer::hyperparameters`
  /// On a device: the learning rate as a float32 scalar there, so that the host need not wait.
  at::Tensor rate = {};
  int64_t step = 1;  // counted from 1
};

/// Makes the step by `Optimizer::step_lists`, or by the formula if there is none.
void list_step(const Optimizer& optimizer, const ListStep& step);

}  // namespace wide
