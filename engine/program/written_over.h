#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace wide {

/// Calls the operator. ATen has no derivative of `aten::copy(self, source)`, so it is computed by
/// operators that have one: the gradient flows to `source`.
void call_operator(const c10::OperatorHandle& op, torch::jit::Stack& stack);

/// Whether a recorded call stands for a change in place that autograd did not see: `grad` is
/// whether grad mode was on.
bool is_untracked_write(const c10::OperatorHandle& op, bool grad);

/// A tensor with the values of `value` and the history of `self`, both of the same sizes: gradients
/// pass to `self` unchanged, as through a tensor changed in place under `no_grad`.
at::Tensor written_over(const at::Tensor& self, const at::Tensor& value);

}  // namespace wide
