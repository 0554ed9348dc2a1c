#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <initializer_list>
#include <string>
#include <vector>

/// What the engine's own operators have in common: float32 on the CPU, inference only.
namespace wide::kernels {

/// Whether an operator can take these: CPU float32, not empty, no gradient wanted.
inline bool takes(std::initializer_list<const at::Tensor*> tensors) {
  for (const at::Tensor* t : tensors)
    if (!t->is_cpu() || t->scalar_type() != at::kFloat || t->numel() == 0 ||
        (at::GradMode::is_enabled() && t->requires_grad()))
      return false;
  return true;
}

/// Calls `wide::name` through the dispatcher, so that a recording sees it; its first result.
inline at::Tensor call(const char* name, std::vector<c10::IValue> stack) {
  const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow((std::string("wide::") + name).c_str(), "");
  op.callBoxed(&stack);
  return stack.at(0).toTensor();
}

}  // namespace wide::kernels
