#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace wide {

/// How far a pooling window reaches and moves, by rows and columns.
struct PoolWindow {
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  bool average = false;

  /// Weight of an element in the window's average; 1 for the maximum.
  float share() const { return average ? 1.0F / static_cast<float>(kernel[0] * kernel[1]) : 1.0F; }
  /// Sizes of the result for x `[images, channels, H, W]`.
  std::vector<int64_t> result_sizes(const at::Tensor& x, bool ceil) const;
};

/// A window from the arguments of `wide::op`, lists of two numbers each.
PoolWindow window_of(const char* op, at::IntArrayRef kernel, at::IntArrayRef stride,
                     at::IntArrayRef padding, at::IntArrayRef dilation = {1, 1},
                     bool average = false);

/// Sizes of one image and of its result.
struct PoolShape {
  int64_t channels, h, w, oh, ow;
};

/// A pooling of contiguous planes `[h, w]`, as the last step of another kernel's epilogue.
struct Pooling {
  PoolWindow window;
  PoolShape shape;

  /// Throws c10::Error for any other text than `text()` makes.
  static Pooling parse(const std::string& text);
  /// "max_pool" or "average_pool", the window and the sizes of the shape but channels.
  std::string text() const;

  int64_t plane() const { return shape.h * shape.w; }
  int64_t results() const { return shape.oh * shape.ow; }
  /// Whether windows are 2 x 2 of stride 2 without padding, none cut off.
  bool squares() const;
  /// Whether a window may lie in the padding alone, as dilated ones can.
  bool may_be_empty() const { return window.dilation[0] > 1 || window.dilation[1] > 1; }
  /// Pools on the calling thread only.
  void run(const float* x, int64_t planes, float* y) const;
};

/// Max pooling of `[planes, channels, H, W]` float32, values only: like ATen's, NaN if the window
/// has one, but without indices, which take ATen most of its time. The result has the layout of x,
/// contiguous or channels last.
at::Tensor max_pool(const at::Tensor& x, const PoolWindow& window, bool ceil);

/// Average pooling in the same layouts, without dilation; padding counts as zeros.
at::Tensor average_pool(const at::Tensor& x, const PoolWindow& window);

}  // namespace wide
