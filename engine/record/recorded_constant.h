#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace wide {

/// `constant` as a running recording wants it where it may be written to: such writes stay inside
/// the recording. Itself when nothing records.
at::Tensor recorded_constant(const at::Tensor& constant);

/// While it lives, what this thread calls is no part of a recording: for what is made once and
/// kept.
class Unrecorded {
  c10::impl::ExcludeDispatchKeyGuard off_{c10::DispatchKeySet(
      {c10::DispatchKey::Fake, c10::DispatchKey::DeferredInit, c10::DispatchKey::Functionalize})};
};

}  // namespace wide
