#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace wide {

/// A chain of pointwise operators over blocks that stay in the first-level cache: `code` (see
/// chain_code.h) of float32 or bool inputs that broadcast together. The result is float32, or bool
/// if the last instruction compares, and has the dense `strides`.
at::Tensor chain(const std::vector<at::Tensor>& inputs, const std::string& code,
                 at::IntArrayRef strides);

}  // namespace wide
