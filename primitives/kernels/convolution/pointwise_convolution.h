#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace wide {

/// `wide::pointwise_convolution`: a convolution of one tap, stride 1, no padding and one group as
/// the product of each model's weights with its images, without copies, directly into the result. x
/// `[N, B, C, ...]` in any layout, w `[N, O, C, 1, ...]`, bias `[N, O]` or none; result `[N, B, O,
/// ...]`, contiguous; float32 on the CPU. A sum with `residual` and an activation (activations.h)
/// may come after it. Inference only: its gradient is refused. Source: torch.nn.Conv1d, Conv2d,
/// Conv3d of kernel_size 1.
at::Tensor pointwise_convolution(const at::Tensor& x, const at::Tensor& w,
                                 const std::optional<at::Tensor>& bias);

}  // namespace wide
