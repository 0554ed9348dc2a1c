#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace wide {

/// A convolution of one to three spatial axes, or a transposed one. Lists are full-length.
struct DirectConvolution {
  std::vector<int64_t> kernel, stride, padding, dilation;
  std::vector<int64_t> output;  // spatial sizes of the result
  int64_t groups = 1;
  bool transposed = false;
};

/// `wide::direct_convolution`: each model's convolution, summed from its images directly into the
/// result. x `[N, B, C, ...]` in any layout, filters from `pack_filters`, bias
/// `[N, O]` or none, `out_channels` O; result `[N, B, O, ...]`, contiguous; float32 on the CPU.
/// Inference only: its gradient is refused.
at::Tensor direct_convolution(const at::Tensor& x, const at::Tensor& filters,
                              const std::optional<at::Tensor>& bias, int64_t out_channels,
                              const DirectConvolution& convolution);

/// Weights `[N, O, C/groups, ...]` (transposed: `[N, C, O/groups, ...]`) as the operator reads
/// them: `[N, groups, blocks of 8 filters, taps, C/groups, 8]`, missing filters zero.
at::Tensor pack_filters(const at::Tensor& weight, int64_t groups, bool transposed);

}  // namespace wide
