#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "primitives/kernels/operators.h"
#include "primitives/kernels/pooling/pool.h"

/// Calls of operators that only passes put into programs.
namespace wide {

inline at::Tensor softmax(const at::Tensor& x, bool log) {
  return kernels::call("softmax", {x, log});
}

inline at::Tensor softmax_backward(const at::Tensor& gradient, const at::Tensor& y, bool log) {
  return kernels::call("softmax_backward", {gradient, y, log});
}

inline at::Tensor reduce_rows(const at::Tensor& x, const std::string& kind, int64_t dims,
                              bool keepdim) {
  return kernels::call("reduce_rows", {x, kind, dims, keepdim});
}

inline at::Tensor chain(const std::vector<at::Tensor>& inputs, const std::string& code,
                        at::IntArrayRef strides) {
  return kernels::call("chain", {inputs, code, strides.vec()});
}

inline at::Tensor matmul(const at::Tensor& a, const at::Tensor& b, bool transpose_a,
                         bool transpose_b, const std::optional<at::Tensor>& bias,
                         const std::string& activation = "none") {
  return kernels::call("matmul", {a, b, transpose_a, transpose_b, bias, activation});
}

inline std::vector<int64_t> two(const int64_t (&numbers)[2]) { return {numbers[0], numbers[1]}; }

inline std::pair<at::Tensor, at::Tensor> max_pool_places(const at::Tensor& x, const PoolWindow& p,
                                                         bool ceil) {
  const auto made =
      kernels::results("max_pool_places", {x, two(p.kernel), two(p.stride), two(p.padding), ceil});
  return {made[0], made[1]};
}

inline at::Tensor max_pool_backward(const at::Tensor& g, const at::Tensor& places,
                                    at::IntArrayRef sizes, const PoolWindow& p,
                                    bool channels_last) {
  return kernels::call("max_pool_backward", {g, places, sizes.vec(), two(p.kernel), two(p.stride),
                                             two(p.padding), channels_last});
}

}  // namespace wide
