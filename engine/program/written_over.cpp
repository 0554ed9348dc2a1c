#include "engine/program/written_over.h"

#include <ATen/ATen.h>

namespace wide {

namespace {

bool is_copy(const c10::OperatorHandle& op) { return op.schema().name() == "aten::copy"; }

}  // namespace

void call_operator(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (!at::GradMode::is_enabled() || !is_copy(op)) {
    op.callBoxed(&stack);
    return;
  }
  const at::Tensor self = stack[0].toTensor(), source = stack[1].toTensor();
  stack.assign({source.to(self.scalar_type()).expand_as(self).contiguous()});
}

bool is_untracked_write(const c10::OperatorHandle& op, bool grad) { return !grad && is_copy(op); }

at::Tensor written_over(const at::Tensor& self, const at::Tensor& value) {
  const at::AutoGradMode grad(true);
  at::Tensor written = self.clone();
  const at::NoGradGuard no_grad;
  return written.copy_(value);
}

}  // namespace wide
