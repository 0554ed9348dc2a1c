// Rules for the attention operators to which LibTorch dispatches scaled_dot_product_attention, as
// they occur in exported programs and in backward passes: N is folded into their batch.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"
#include "primitives/patterns/attention.h"

namespace wide::attention_rules {
namespace {

/// `statistics`: whether the softmax's sums are outputs (for a backward pass).
struct KernelConfig {
  std::string op;
  double dropout = 0;
  bool causal = false, statistics = true;
  std::optional<double> scale;
  std::string text() const {
    return fmt::format("{} causal={} dropout={} scale={}", op, causal ? 1 : 0, dropout,
                       scale ? fmt::format("{}", *scale) : "-");
  }
};

constexpr const char* kForward = "aten::_scaled_dot_product_flash_attention_for_cpu";
constexpr const char* kBackward = "aten::_scaled_dot_product_flash_attention_for_cpu_backward";
constexpr const char* kEfficient = "aten::_scaled_dot_product_efficient_attention";

std::optional<double> scale_of(const CallView& call, size_t i) {
  if (i >= call.size() || call.constant(i).isNone()) return std::nullopt;
  return call.number(i, 1.0);
}

bool four_axes(const CallView& call, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i)
    if (!call.is_tensor(i) || call.value(i).sizes.size() != 4) return false;
  return true;
}

// query, key, value, dropout, causal, mask, scale -> output, logsumexp
std::optional<Claimed> claim_forward(const CallView& call) {
  if (!four_axes(call, 0, 3)) return std::nullopt;
  KernelConfig c{kForward, call.number(3, 0.0), call.flag(4), true, scale_of(call, 6)};
  return Claimed{c, {call.id(0), call.id(1), call.id(2), call.id(5)}, {0, 1}};
}

// grad, query, key, value, out, logsumexp, dropout, causal, mask, scale -> three gradients
std::optional<Claimed> claim_backward(const CallView& call) {
  if (!four_axes(call, 0, 5) || !call.is_tensor(5)) return std::nullopt;
  KernelConfig c{kBackward, call.number(6, 0.0), call.flag(7), true, scale_of(call, 9)};
  return Claimed{
      c,
      {call.id(1), call.id(2), call.id(3), call.id(8), call.id(0), call.id(4), call.id(5)},
      {0, 1, 2}};
}

// query, key, value, mask, statistics, dropout, causal, scale -> output, logsumexp, seed, offset
std::optional<Claimed> claim_efficient(const CallView& call) {
  if (!four_axes(call, 0, 3)) return std::nullopt;
  KernelConfig c{kEfficient, call.number(5, 0.0), call.flag(6), call.flag(4), scale_of(call, 7)};
  return Claimed{c, {call.id(0), call.id(1), call.id(2), call.id(3)}, {0, 1, -1, -1}};
}

Tensors folded(const KernelConfig& c, const WideCall& call) {
  const auto fold = [&](size_t i) { return call.inputs[i].flatten(0, 1); };
  const auto back = [&](const Tensor& t) { return t.unflatten(0, {call.n, -1}); };
  const Tensor q = fold(0), k = fold(1), v = fold(2);
  const auto mask = if_defined(folded_mask(call, aligned_mask(call)));
  if (c.op == kBackward) {
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        fold(4), q, k, v, fold(5), fold(6), c.dropout, c.causal, mask, c.scale);
    return {back(dq), back(dk), back(dv)};
  }
  if (c.op == kEfficient) {
    const auto [y, sums, seed, offset] = at::_scaled_dot_product_efficient_attention(
        q, k, v, mask, c.statistics, c.dropout, c.causal, c.scale);
    return {back(y), back(sums)};
  }
  const auto [y, sums] =
      at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, c.dropout, c.causal, mask, c.scale);
  return {back(y), back(sums)};
}

WIDE_RULES(
    // q NBHTd, k NBHSd, v NBHSd, mask N..TS -> y NBHTd, sums NBHT: as [NB] sequences
    {.name = "attention_kernels",
     .summary = "The attention kernels of LibTorch over all models' sequences at once",
     .claims = {{kForward, claim_forward},
                {kBackward, claim_backward},
                {kEfficient, claim_efficient}},
     .strategies = {strategy<KernelConfig>("folded", "N folded into the batch", folded)}});

}  // namespace
}  // namespace wide::attention_rules
