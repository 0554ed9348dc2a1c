// Rules for slice assignment: y[:, 1:4] = ... and y[:, 2] = ..., which a recording without mutation
// turns into copy or fill, and slice_scatter or select_scatter. functorch has no rules for copy and
// fill; its slice_scatter fails for open ends, written as 2^63 - 1; its select_scatter writes each
// element as often as the dimension is long, and its gradient is as many times too large.
#include <ATen/ops/full.h>
#include <ATen/ops/select_scatter.h>
#include <ATen/ops/slice_scatter.h>

#include "engine/widen/describe.h"

namespace wide::slices_rules {
namespace {

struct SliceConfig {
  int64_t dim = 0, start = 0, end = 0, step = 1;
  std::string text() const {
    return fmt::format("dim={} start={} end={} step={}", dim, start, end, step);
  }
};

/// A Python index, from the end if negative, clamped to the dimension.
int64_t place(int64_t index, int64_t size) {
  return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
}

std::optional<int64_t> index(const CallView& call, size_t i) {
  const IValue& value = call.constant(i);
  return value.isInt() ? std::optional(value.toInt()) : std::nullopt;
}

std::optional<Claimed> claim(const CallView& call) {
  if (!call.is_tensor(0) || !call.is_tensor(1)) return std::nullopt;
  const Sizes& sizes = call.value(0).sizes;
  const auto rank = static_cast<int64_t>(sizes.size());
  SliceConfig c;
  c.dim = index(call, 2).value_or(0);
  if (c.dim < 0) c.dim += rank;
  if (c.dim < 0 || c.dim >= rank) return std::nullopt;
  const int64_t size = sizes[static_cast<size_t>(c.dim)];
  c.start = place(index(call, 3).value_or(0), size);
  c.end = place(index(call, 4).value_or(size), size);
  c.step = index(call, 5).value_or(1);
  return Claimed{c, {call.id(0), call.id(1)}, {0}};
}

Tensors next_dimension(const SliceConfig& c, const WideCall& call) {
  return {at::slice_scatter(call.inputs[0], call.inputs[1], c.dim + 1, c.start, c.end, c.step)};
}

std::optional<Claimed> claim_select(const CallView& call) {
  if (!call.is_tensor(0) || !call.is_tensor(1) || !index(call, 2) || !index(call, 3))
    return std::nullopt;
  const Sizes& sizes = call.value(0).sizes;
  SliceConfig c;
  c.dim = *index(call, 2);
  if (c.dim < 0) c.dim += static_cast<int64_t>(sizes.size());
  if (c.dim < 0 || c.dim >= static_cast<int64_t>(sizes.size())) return std::nullopt;
  c.start = place(*index(call, 3), sizes[static_cast<size_t>(c.dim)]);
  c.end = c.start + 1;
  return Claimed{c, {call.id(0), call.id(1)}, {0}};
}

Tensors next_selected(const SliceConfig& c, const WideCall& call) {
  return {at::select_scatter(call.inputs[0], call.inputs[1], c.dim + 1, c.start)};
}

struct FillConfig {
  Sizes sizes;  // of one model
  at::ScalarType dtype = at::kFloat;
  c10::Scalar value;
  std::string text() const { return fmt::format("sizes={}", fmt::join(sizes, "x")); }
};

/// `copy` and `fill` replace all of the first argument, of which only sizes and dtype are used.
std::optional<Claimed> claim_fill(const CallView& call) {
  if (!call.is_tensor(0)) return std::nullopt;
  FillConfig c{call.value(0).sizes, call.value(0).dtype, 0};
  if (call.is_tensor(1)) return Claimed{c, {call.id(0), call.id(1)}, {0}};
  if (!call.constant(1).isScalar()) return std::nullopt;
  c.value = call.constant(1).toScalar();
  return Claimed{c, {call.id(0)}, {0}};
}

Tensors filled(const FillConfig& c, const WideCall& call) {
  const Sizes sizes = wide_sizes(call.n, c.sizes);
  const Tensor& like = call.inputs[0];
  if (call.inputs.size() == 1) return {at::full(sizes, c.value, like.options())};
  // Inserts axes after the axis of models, so that the value broadcasts.
  const Tensor value = call.inputs[1].to(c.dtype);
  Sizes aligned = value.sizes().vec();
  aligned.insert(aligned.begin() + 1, sizes.size() - aligned.size(), 1);
  return {value.reshape(aligned).expand(sizes).contiguous()};
}

WIDE_RULES(
    // x N..D.., part N..d.. -> N..D..
    {.name = "slice_assignment",
     .summary = "Slice assignment over all models at once",
     .claims = {{"aten::slice_scatter", claim}},
     .strategies = {strategy<SliceConfig>("wide", "the dimension shifted by one", next_dimension)}},
    // x N..D.., part N.. (x without D) -> N..D..
    {.name = "select_assignment",
     .summary = "Assignment to one index of a dimension over all models at once",
     .claims = {{"aten::select_scatter", claim_select}},
     .strategies = {strategy<SliceConfig>("wide", "the dimension shifted by one", next_selected)}},
    // x N.., value N or broadcast -> N..
    {.name = "fill",
     .summary = "Copies and fills over all models at once",
     .claims = {{"aten::copy", claim_fill}, {"aten::fill", claim_fill}},
     .strategies = {strategy<FillConfig>("wide", "the value broadcast after N", filled)}});

}  // namespace
}  // namespace wide::slices_rules
