// Assignment under a mask: y[mask] = value, which a recording without mutation turns into
// index_put. functorch has no rule for masks, as the number of selected elements depends on data;
// `where` gives the same result without that number. Calls that the claim below refuses run
// model by model.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::masks_rules {
namespace {

struct MaskConfig {
  int64_t before = 0, after = 0;  // axes before and after the mask's
  std::string text() const { return fmt::format("before={} after={}", before, after); }
};

/// Arguments: self, indices, values, accumulate.
std::optional<Claimed> claim(const CallView& call) {
  if (!call.is_tensor(0) || !call.is_tensor(2) || call.flag(3)) return std::nullopt;
  const std::vector<ValueId> indices = call.list(1);
  if (indices.empty() || indices.back() == kNone) return std::nullopt;
  if (std::ranges::count(indices, kNone) + 1 != static_cast<std::ptrdiff_t>(indices.size()))
    return std::nullopt;
  const Value &self = call.value(0), &mask = call.meta(indices.back()), &value = call.value(2);
  if (mask.dtype != at::kBool) return std::nullopt;
  MaskConfig c;
  c.before = static_cast<int64_t>(indices.size()) - 1;
  c.after = static_cast<int64_t>(self.sizes.size() - mask.sizes.size()) - c.before;
  // `value` must be the same for all elements under the mask: its sizes in front of the last
  // `after` axes are all 1.
  const auto extra = static_cast<int64_t>(value.sizes.size()) - c.after;
  for (int64_t i = 0; i < extra; ++i)
    if (value.sizes[static_cast<size_t>(i)] != 1) return std::nullopt;
  return Claimed{c, {call.id(0), indices.back(), call.id(2)}, {0}};
}

/// where(mask, value, self); mask and value get axes of size 1 behind N, to broadcast against self.
Tensors chosen(const MaskConfig& c, const WideCall& call) {
  const Tensor &self = call.inputs[0], &mask = call.inputs[1], &value = call.inputs[2];
  Sizes over = mask.sizes().vec();
  over.insert(over.begin() + 1, static_cast<size_t>(c.before), 1);
  over.insert(over.end(), static_cast<size_t>(c.after), 1);
  Sizes to = value.sizes().vec();
  if (value.dim() < self.dim()) {
    to.insert(to.begin() + 1, static_cast<size_t>(self.dim() - value.dim()), 1);
  } else {
    to.erase(to.begin() + 1, to.begin() + 1 + (value.dim() - self.dim()));
  }
  return {at::where(mask.reshape(over), value.reshape(to), self)};
}

WIDE_RULES(
    // M: the mask's axes, D: the axes behind them; x N..M..D, mask N..M, value N(1)..D -> N..M..D
    {.name = "masked_assignment",
     .summary = "Assignment under a mask over all models at once",
     .claims = {{"aten::index_put", claim}},
     .strategies = {strategy<MaskConfig>("wide", "at::where over all models", chosen)}});

}  // namespace
}  // namespace wide::masks_rules
