#pragma once
#include <ATen/core/Tensor.h>

#include <string>

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

/// A pooling of planes `[h, w]` that lie one after the other, as the last work of another kernel.
struct Pooling {
  PoolWindow window;
  PoolShape shape;

  /// Throws c10::Error for what is no text of one.
  static Pooling parse(const std::string& text);
  /// "max_pool" or "average_pool", the window and the sizes of the shape but channels.
  std::string text() const;

  int64_t plane() const { return shape.h * shape.w; }
  int64_t results() const { return shape.oh * shape.ow; }
  /// Whether it is of squares of 2 x 2 side by side, none of which is cut off.
  bool squares() const;
  /// Whether a window may lie in the padding alone, as dilated ones can.
  bool may_be_empty() const { return window.dilation[0] > 1 || window.dilation[1] > 1; }
  /// On this thread alone.
  void run(const float* x, int64_t planes, float* y) const;
};

/// Max pooling of `[planes, channels, H, W]` float32, values alone: what ATen's gives, NaN wherever
/// one is in the window, without the places of the greatest ones, which cost it most of its time.
/// In the layout of x, contiguous or channels last.
at::Tensor max_pool(const at::Tensor& x, const PoolWindow& window, bool ceil);

/// Average pooling in the same layouts, without dilation; padding counts as zeros.
at::Tensor average_pool(const at::Tensor& x, const PoolWindow& window);

}  // namespace wide
