// Padding as nn.ConvNd's padding modes record it. Zeros, reflect and replicate are operators with
// rules of their own; circular is a composite that writes into new memory, which, recorded, has
// neither a gradient nor a cheap wide form: it is recorded as a concatenation instead.
#include <ATen/ATen.h>

#include "engine/record/record.h"

namespace wide::padding_rules {
namespace {

/// Circular padding as cat. `pad`: (before, after) by axis from the last one on, not negative.
Tensor circular(Tensor x, const Sizes& pad) {
  const auto axes = static_cast<int64_t>(pad.size() / 2);
  for (int64_t k = 0; k < axes; ++k) {
    const int64_t axis = x.dim() - 1 - k, size = x.size(axis);
    const int64_t before = pad[static_cast<size_t>(2 * k)],
                  after = pad[static_cast<size_t>(2 * k + 1)];
    Tensors pieces;
    if (before > 0) pieces.push_back(x.slice(axis, size - before, size));
    pieces.push_back(x);
    if (after > 0) pieces.push_back(x.slice(axis, 0, after));
    if (pieces.size() > 1) x = at::cat(pieces, axis);
  }
  return x;
}

/// Whether the padding is valid; other calls stay, so that LibTorch refuses them.
bool goes_round_once(c10::ArrayRef<IValue> in) {
  const Tensor x = in[0].toTensor();
  const Sizes pad = in[1].toIntVector();
  if (pad.size() % 2 != 0 || static_cast<int64_t>(pad.size() / 2) + 2 != x.dim()) return false;
  for (size_t i = 0; i < pad.size(); ++i)
    if (pad[i] < 0 || pad[i] > x.size(x.dim() - 1 - static_cast<int64_t>(i / 2))) return false;
  return true;
}

[[maybe_unused]] const bool registered =
    add_decomposition({"aten::_pad_circular", "it copies into fresh memory", goes_round_once,
                       [](c10::ArrayRef<IValue> in) {
                         return Stack{circular(in[0].toTensor(), in[1].toIntVector())};
                       }});

}  // namespace
}  // namespace wide::padding_rules
