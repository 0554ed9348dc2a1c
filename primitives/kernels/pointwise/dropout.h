#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// `wide::dropout`: y = x mask / (1 - p), with one draw for each element; x contiguous, 0 < p < 1.
/// One pass over x. The seed comes from the default generator; draws do not depend on the number of
/// threads. float32 on the CPU; its gradient is refused.
at::Tensor dropout(const at::Tensor& x, double p);

}  // namespace wide
