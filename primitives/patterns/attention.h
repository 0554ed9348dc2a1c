#pragma once
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/widen/claim.h"

namespace wide {

/// Arguments of attention beside q, k, v and a mask.
struct AttentionConfig {
  double dropout = 0;
  bool causal = false;
  std::optional<double> scale;
  bool grouped_queries = false;
  bool keys_transposed = false;  // k is [.., D, S]
  std::optional<double> fill;    // new score where the mask is true; none: true keeps

  bool finite_fill() const;
  std::string text() const;
};

/// Attention in primitive operations, as older models write it: `softmax(q kᵀ · s + mask) v`, with
/// the scale at any place and the mask by add, masked_fill or where; a mask of ones and triu (or
/// tril) is causal. Inputs: q, k, v `[B, H, ..]` or `[B, ..]` and the mask, if any.
std::vector<Pattern> attention_written_out();

}  // namespace wide
