#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// `constant` as a running recording wants it where it may be written to: such writes stay inside
/// the recording. Itself when nothing records.
at::Tensor recorded_constant(const at::Tensor& constant);

}  // namespace wide
