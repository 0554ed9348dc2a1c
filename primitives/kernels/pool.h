#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// How far a pooling window reaches and moves, by rows and columns.
struct PoolWindow {
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  bool average = false;

  /// Of an element in the window's average.
  float share() const { return average ? 1.0F / static_cast<float>(kernel[0] * kernel[1]) : 1.0F; }
};

/// Sizes of one image and of its result.
struct PoolShape {
  int64_t channels, h, w, oh, ow;
};

/// Max pooling of `[planes, channels, H, W]` float32, values alone: what ATen's gives, NaN wherever
/// one is in the window, without the places of the greatest ones, which cost it most of its time.
/// In the layout of x, contiguous or channels last.
at::Tensor max_pool(const at::Tensor& x, const PoolWindow& window, bool ceil);

/// Average pooling in the same layouts, without dilation; padding counts as zeros.
at::Tensor average_pool(const at::Tensor& x, const PoolWindow& window);

}  // namespace wide
