#pragma once
#include "engine/program.h"

namespace wide {

/// A tensor whose elements lie in memory row by row as they are: contiguous, no conjugate or minus
/// yet to be taken. Itself where it is so already.
Tensor in_plain_memory(const Tensor& tensor);

/// The tensor laid out as it is, with no conjugate or minus yet to be taken. Itself where it is so
/// already.
Tensor resolved(const Tensor& tensor);

}  // namespace wide
