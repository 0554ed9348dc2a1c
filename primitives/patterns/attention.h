#pragma once
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/widen/claim.h"

namespace wide {

/// What a call of attention asks for beside q, k, v and a mask.
struct AttentionConfig {
  double dropout = 0;
  bool causal = false;
  std::optional<double> scale;
  bool grouped_queries = false;
  bool keys_transposed = false;  // k is [.., D, S]
  std::optional<double> fill;    // what scores become where the mask is true; else true ones count

  bool finite_fill() const;
  std::string text() const;
};

/// Attention as courses and older models write it: `softmax(q kᵀ · s + mask) v` in products, with
/// the scale in any place, the mask added, filled in, or by `where`; one made of ones and triu (or
/// tril) is causal. Inputs: q, k, v `[B, H, ..]` or `[B, ..]` and the mask, if any.
std::vector<Pattern> attention_written_out();

}  // namespace wide
