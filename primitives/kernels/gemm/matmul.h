#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace wide {

/// op(a) op(b) + bias for each of n pairs of matrices, where `transpose_*` transposes a matrix
/// first: op(a) [n, M, K], op(b) [n, K, O], bias [n, 1, O], result [n, M, O]; float32 on the CPU,
/// any strides. An activation (primitives/kernels/pointwise/activations.h) may come after it.
at::Tensor matmul(const at::Tensor& a, const at::Tensor& b, bool transpose_a, bool transpose_b,
                  const std::optional<at::Tensor>& bias, const std::string& activation = "none");

}  // namespace wide
