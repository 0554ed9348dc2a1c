#pragma once
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide {

/// How wide images `[N, B, C, ...]` are passed to operators on `[B, C, ...]`. N is folded in
/// *packed* into the channels, `[B, N*C, ...]`, as a grouped convolution's result is, or *stacked*
/// into the batch, `[N*B, C, ...]`. The strides decide which one needs no copy.
enum class Folding { packed, stacked };

inline Sizes replace_front(c10::IntArrayRef sizes, size_t drop, Sizes front) {
  front.insert(front.end(), sizes.begin() + static_cast<std::ptrdiff_t>(drop), sizes.end());
  return front;
}

/// `[N, B, C, ...]` to `[B, N*C, ...]`.
inline Tensor pack_channels(const Tensor& x) {
  const auto s = x.sizes();
  return x.transpose(0, 1).reshape(replace_front(s, 3, {s[1], s[0] * s[2]}));
}

/// `pack_channels` with channels last in memory: no copy if they are last already, else one.
inline Tensor pack_channels_last(const Tensor& x) {
  const auto s = x.sizes();
  Tensor y = x.movedim({0, 2}, {-2, -1});  // [B, ..., N, C]
  Sizes sizes = y.sizes().vec();
  sizes.pop_back();
  sizes.back() = s[0] * s[2];
  return y.reshape(sizes).movedim(-1, 1);
}

/// `[B, N*C, ...]` to `[N, B, C, ...]`, never a copy.
inline Tensor unpack_channels(const Tensor& y, int64_t n) {
  const auto s = y.sizes();
  return y.view(replace_front(s, 2, {s[0], n, s[1] / n})).transpose(0, 1);
}

/// Whether two neighbouring dimensions can be merged without a copy.
inline bool mergeable(const Tensor& x, int64_t outer, int64_t inner) {
  return x.size(outer) == 1 || x.size(inner) == 1 ||
         x.stride(outer) == x.size(inner) * x.stride(inner);
}

/// The folding that needs no copy; stacked if both need one.
inline Folding cheapest_folding(const Tensor& x) {
  if (mergeable(x, 0, 1)) return Folding::stacked;
  return mergeable(x, 0, 2) ? Folding::packed : Folding::stacked;
}

inline Tensor fold(const Tensor& x, Folding way) {
  return way == Folding::packed ? pack_channels(x) : x.flatten(0, 1);
}

inline Tensor unfold(const Tensor& y, Folding way, int64_t n) {
  if (way == Folding::packed) return unpack_channels(y, n);
  const auto s = y.sizes();
  return y.view(replace_front(s, 1, {n, s[0] / n}));
}

/// `[N, C]` shaped to scale a wide image of rank `rank`: `[N, 1, C, 1, ...]`.
inline Tensor per_channel(const Tensor& weight, int64_t rank) {
  Sizes sizes(static_cast<size_t>(rank), 1);
  sizes[0] = weight.size(0);
  sizes[2] = weight.size(1);
  return weight.reshape(sizes);
}

}  // namespace wide
