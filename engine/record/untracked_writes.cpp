#include "engine/record/untracked_writes.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/copy.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace wide {

namespace {

namespace fz = at::functionalization::impl;
using Storage = at::functionalization::FunctionalStorageImpl;

Storage& functional_storage(const Tensor& t) {
  return static_cast<Storage&>(*t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

/// The current value of the whole memory of which `t` is a view.
Tensor base_of(const Tensor& t) {
  fz::sync(t);
  return functional_storage(t).base();
}

bool may_have_history(const IValue& v) {
  return v.isTensor() && v.toTensor().defined() && fz::isFunctionalTensor(v.toTensor()) &&
         (at::isFloatingType(v.toTensor().scalar_type()) || v.toTensor().is_complex());
}

}  // namespace

bool Untracked::holds(const Tensor& tensor) const {
  return all_.count(tensor.unsafeGetTensorImpl()) > 0;
}

void Untracked::note_view(const c10::OperatorHandle& op, const IValue& self, const Stack& stack) {
  const auto& arguments = op.schema().arguments();
  if (!may_have_history(self) || arguments[0].alias_info() == nullptr ||
      arguments[0].alias_info()->isWrite())
    return;
  if (at::GradMode::is_enabled() && !holds(self.toTensor()) && op.schema().name() != "aten::detach")
    return;
  const auto add = [this](const Tensor& t) {
    if (may_have_history(t)) all_.try_emplace(t.unsafeGetTensorImpl(), t.getIntrusivePtr());
  };
  for (size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
    if (stack[i].isTensor()) add(stack[i].toTensor());
    if (stack[i].isTensorList())
      for (const Tensor& t : stack[i].toTensorVector()) add(t);
  }
}

UntrackedWrites::UntrackedWrites(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments,
                                 const Untracked& untracked) {
  if (!op.schema().is_mutable()) return;
  const auto reads_other = [&](const IValue& written) {
    for (const IValue& v : arguments)
      if (may_have_history(v) && !v.toTensor().is_same(written.toTensor())) return true;
    return false;
  };
  const auto look = [&](const IValue& v) {
    if (!may_have_history(v)) return;
    const Tensor& t = v.toTensor();
    const bool tracked = !untracked.holds(t), grad = at::GradMode::is_enabled();
    if (grad && tracked) return;
    all_.push_back({t, base_of(t), tracked, grad && reads_other(v)});
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = op.schema().arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    look(arguments[i]);
    if (arguments[i].isTensorList())
      for (const Tensor& t : arguments[i].toTensorVector()) look(t);
  }
}

void UntrackedWrites::record() const {
  for (const auto& [written, before, tracked, apart] : all_) {
    const Tensor after = base_of(written);
    if (after.is_same(before) || after.sizes() != before.sizes() ||
        after.scalar_type() != before.scalar_type())
      continue;
    Tensor kept;
    {
      const at::NoGradGuard no_grad;
      const at::AutoDispatchBelowADInplaceOrView below;
      const c10::impl::ExcludeDispatchKeyGuard off(
          c10::DispatchKeySet({c10::DispatchKey::DeferredInit, c10::DispatchKey::Functionalize}));
      kept = at::copy(before, after);
    }
    Storage& storage = functional_storage(written);
    // Keeps `storage` alive when the wrapper drops it.
    const c10::Storage alive = written.unsafeGetTensorImpl()->unsafe_storage();
    if (apart && written.sizes() == after.sizes()) {
      auto* wrapper = fz::unsafeGetFunctionalWrapper(written);
      wrapper->replace_(after);
      wrapper->_unsafe_reset_storage();
    }
    storage.add_update(kept, {});
    const at::AutoGradMode as_made(tracked);  // sync makes the view anew, in its own grad mode
    fz::sync(written);
  }
}

}  // namespace wide
