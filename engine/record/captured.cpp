#include "engine/record/captured.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "engine/error.h"

namespace wide {

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

/// Whether a tensor has plain memory with values, unlike the wrappers of functorch and of Python.
bool can_wrap(const Tensor& t) {
  constexpr DispatchKeySet others({DispatchKey::Functionalize, DispatchKey::FuncTorchBatched,
                                   DispatchKey::FuncTorchGradWrapper, DispatchKey::Python});
  return t.defined() && t.layout() == c10::kStrided && !t.is_meta() && !t.key_set().has_any(others);
}

}  // namespace

const Tensor* Captured::wrapped(const Tensor& tensor) {
  if (!can_wrap(tensor)) return nullptr;
  const std::lock_guard lock(mutex_);
  One& one = all_.try_emplace(tensor.unsafeGetTensorImpl(), One{tensor, {}}).first->second;
  if (!one.wrapped.defined()) {
    // lift() wraps the tensor so that gradients still flow to it.
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(
        DispatchKeySet({DispatchKey::Fake, DispatchKey::DeferredInit}));
    const at::AutoGradMode grad(true);
    one.wrapped = at::lift(tensor);
  }
  return &one.wrapped;
}

void Captured::add_literal(const Tensor& memory) {
  if (!can_wrap(memory)) return;
  const std::lock_guard lock(mutex_);
  all_.try_emplace(memory.unsafeGetTensorImpl(), One{memory, {}, true});
}

void Captured::refuse_changes() const {
  for (const auto& [own, one] : all_) {
    if (one.literal || !one.wrapped.defined()) continue;
    at::functionalization::impl::sync(one.wrapped);
    const Tensor now = at::functionalization::impl::from_functional_tensor(one.wrapped);
    if (now.unsafeGetTensorImpl() != own)
      fail(
          "[forward] captured tensor {}: got a change in place, expected it left as it is; try to "
          "register it as a buffer",
          describe(one.tensor).shape_text());
  }
}

}  // namespace wide
