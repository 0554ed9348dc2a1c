#pragma once
#include <vector>

#include "engine/widen/claim.h"

namespace wide {

/// Layer normalisation over the last axis in primitive operations:
/// `(x - mean) / sqrt(var + eps) * w + b`, the variance by `var` or as a mean of squares.
struct WrittenNorm {
  ValueId x = kNone, weight = kNone, bias = kNone;
  double eps = 0;
  std::vector<size_t> nodes;  // without the last one
};

/// The norm whose last node is `node`, an addition; nullopt if it is none.
std::optional<WrittenNorm> layer_norm_written_out(const PatternView& view, size_t node);

}  // namespace wide
