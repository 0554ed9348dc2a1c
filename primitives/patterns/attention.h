#pragma once
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/widen/claim.h"
#include "engine/widen/strategy.h"

namespace wide {

/// Arguments of attention beside q, k, v and a mask.
struct AttentionConfig {
  double dropout = 0;
  bool causal = false;
  std::optional<double> scale;
  bool grouped_queries = false;
  bool keys_transposed = false;  // k is [.., D, S]
  std::optional<double> fill;    // new score where the mask is true; none: true keeps
  /// Queries whose keys are all masked give 0, as in scaled_dot_product_attention; false: NaN, as a
  /// softmax gives.
  bool empty_is_zero = false;

  bool finite_fill() const;
  std::string text() const;
};

/// Each model's mask, `call.inputs[3]`, with the rank of q, as missing leading axes broadcast.
Tensor aligned_mask(const WideCall& call);

/// An aligned mask with models folded into the batch: `[N B or 1, ...]`.
Tensor folded_mask(const WideCall& call, const Tensor& aligned);

/// Attention in primitive operations, as older models write it: `softmax(q kᵀ · s + mask) v`, with
/// the scale at any place and the mask by add, masked_fill or where; a mask of ones and triu (or
/// tril) is causal. Inputs: q, k, v `[B, H, ..]` or `[B, ..]` and the mask, if any.
std::vector<Pattern> attention_written_out();

}  // namespace wide
