#pragma once
#include <ATen/core/Tensor.h>

namespace wide::norms {

/// The layout of images `[N, B, C, ...]`. `planes`: every channel of a sample is contiguous; else,
/// if `row` > 0, they are channels_last: the pixels of a model are rows of channels, `row` apart.
struct Images {
  int64_t n, b, c, area;           // models, samples, channels, pixels of an image
  int64_t model, sample, channel;  // strides, in elements
  bool planes;
  int64_t row = 0;

  explicit Images(const at::Tensor& x)
      : n(x.size(0)),
        b(x.size(1)),
        c(x.size(2)),
        area(1),
        model(x.stride(0)),
        sample(x.stride(1)),
        channel(x.stride(2)) {
    int64_t pixel = 0;  // distance of neighbouring pixels; 0: there is one only
    bool merged = true;
    for (int64_t k = x.dim() - 1; k >= 3; --k) {
      if (x.size(k) == 1) continue;
      if (pixel == 0) pixel = x.stride(k);
      merged = merged && x.stride(k) == pixel * area;
      area *= x.size(k);
    }
    const bool inner = c == 1 || channel == 1;
    planes = merged && (pixel == 1 || (pixel == 0 && !inner));
    if (planes || !merged || !inner) return;
    if (pixel == 0) {
      row = sample;
    } else if (b == 1 || sample == pixel * area) {
      row = pixel;
    }
  }

  /// Whether they have one of the two layouts.
  bool fits() const { return planes || row > 0; }
  /// Whether each sample's channels are contiguous.
  bool whole_samples() const { return channel == area && (planes || area == 1); }
  /// Where channel `at` of sample `k` of model `i` begins.
  int64_t offset(int64_t i, int64_t k, int64_t at) const {
    return i * model + k * sample + at * channel;
  }
};

}  // namespace wide::norms
