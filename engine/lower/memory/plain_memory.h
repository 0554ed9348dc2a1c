#pragma once
#include "engine/program.h"

namespace wide {

/// The tensor, contiguous and with conjugation and negation resolved, as kernels read it; the same
/// tensor if it is so already.
Tensor in_plain_memory(const Tensor& tensor);

/// The tensor with its strides kept and conjugation and negation resolved; the same tensor if it is
/// so already.
Tensor resolved(const Tensor& tensor);

}  // namespace wide
