#pragma once
#include "engine/widen/claim.h"

namespace wide {

/// A normalisation over the last axis in primitive operations.
struct WrittenNorm {
  ValueId x = kNone, weight = kNone, bias = kNone;
  double eps = 0;
  std::vector<size_t> nodes;  // without the last one
};

/// Layer normalisation, `(x - mean) / sqrt(var + eps) * w + b`, the variance by `var` or as a mean
/// of squares. `node`: the last one, an addition; nullopt if it is no such norm.
std::optional<WrittenNorm> layer_norm_written_out(const PatternView& view, size_t node);

/// Root mean square normalisation, `x / sqrt(mean(x^2) + eps)`, maybe times w.
std::optional<WrittenNorm> rms_norm_written_out(const PatternView& view, size_t node);

}  // namespace wide
