#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace wide {

/// `constant` wrapped for the running recording, so that writes to it stay inside the recording;
/// the tensor itself if nothing is recorded.
at::Tensor recorded_constant(const at::Tensor& constant);

/// While it exists, this thread's calls are not recorded: for tensors that are made once and kept.
class Unrecorded {
  c10::impl::ExcludeDispatchKeyGuard off_{c10::DispatchKeySet(
      {c10::DispatchKey::Fake, c10::DispatchKey::DeferredInit, c10::DispatchKey::Functionalize})};
};

}  // namespace wide
