// Rules for max, average and adaptive max pools. Pools have no weights, so N is folded into the
// batch or the channels, whichever needs no copy. (functorch always folds it into the batch, which
// copies the results of a grouped convolution.)
#include "primitives/layout.h"

namespace wide::pooling_rules {
namespace {

struct PoolConfig {
  std::string op;
  Sizes kernel, stride, padding, dilation;
  bool ceil = false, count_padding = true;
  std::optional<int64_t> divisor;
  std::string text() const {
    return fmt::format("{} kernel={} stride={} padding={} dilation={} ceil={}", op,
                       list_text(kernel), list_text(stride), list_text(padding),
                       list_text(dilation), ceil ? 1 : 0);
  }
};

bool is_image(const CallView& call) { return call.is_tensor(0) && call.value(0).sizes.size() == 4; }

std::optional<Claimed> claim_max(const CallView& call) {
  if (!is_image(call)) return std::nullopt;
  PoolConfig c{"max",        call.ints(1), call.ints(2), call.ints(3),
               call.ints(4), call.flag(5), true,         {}};
  return Claimed{c, {call.id(0)}, {0, 1}};
}

std::optional<Claimed> claim_average(const CallView& call) {
  if (!is_image(call)) return std::nullopt;
  PoolConfig c{"average", call.ints(1), call.ints(2), call.ints(3),
               {},        call.flag(4), call.flag(5), {}};
  if (call.number(6, 0) != 0) c.divisor = static_cast<int64_t>(call.number(6, 0));
  return Claimed{c, {call.id(0)}, {0}};
}

std::optional<Claimed> claim_adaptive_max(const CallView& call) {
  if (!is_image(call)) return std::nullopt;
  return Claimed{
      PoolConfig{"adaptive_max", call.ints(1), {}, {}, {}, false, true, {}}, {call.id(0)}, {0, 1}};
}

Tensors folded(const PoolConfig& c, const WideCall& call) {
  const Tensor& x = call.inputs[0];
  const Folding way = cheapest_folding(x);
  const Tensor flat = fold(x, way);
  const auto back = [&](const Tensor& y) { return unfold(y, way, call.n); };
  if (c.op == "max") {
    const auto [y, indices] =
        at::max_pool2d_with_indices(flat, c.kernel, c.stride, c.padding, c.dilation, c.ceil);
    return {back(y), back(indices)};
  }
  if (c.op == "adaptive_max") {
    const auto [y, indices] = at::adaptive_max_pool2d(flat, c.kernel);
    return {back(y), back(indices)};
  }
  return {back(
      at::avg_pool2d(flat, c.kernel, c.stride, c.padding, c.ceil, c.count_padding, c.divisor))};
}

WIDE_RULES(
    // x NBCHW -> NBChw, of max pools indices NBChw too
    {.name = "pooling",
     .summary = "Pools over all models' planes at once",
     .claims = {{"aten::max_pool2d_with_indices", claim_max},
                {"aten::avg_pool2d", claim_average},
                {"aten::adaptive_max_pool2d", claim_adaptive_max}},
     .strategies = {
         strategy<PoolConfig>("folded", "N folded into the batch or the channels", folded)}});

}  // namespace
}  // namespace wide::pooling_rules
