// Rules for operators that treat all samples of a batch alike and for which functorch has no
// batching rule: N is folded into the batch. One row of the table each.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::batched_rules {
namespace {

struct BatchedConfig {
  Sizes sizes, stride, padding;  // arguments of the operator
  bool batched = true;           // false: one sample without an axis B
  bool flag = false;             // align_corners
  std::string text() const { return list_text(sizes); }
};

Tensor flat(const BatchedConfig& c, const Tensor& x) { return c.batched ? x.flatten(0, 1) : x; }

Tensor apart(const BatchedConfig& c, const Tensor& y, int64_t n) {
  return c.batched ? y.unflatten(0, {n, y.size(0) / n}) : y;
}

// ------------------------------------------------------------------------------- affine grids

std::optional<Claimed> claim_grid(const CallView& call) {  // theta, size, align_corners
  if (!call.is_tensor(0) || call.value(0).sizes.size() != 3) return std::nullopt;
  return Claimed{BatchedConfig{call.ints(1), {}, {}, true, call.flag(2)}, {call.id(0)}, {0}};
}

Tensors grid(const BatchedConfig& c, const WideCall& call) {
  Sizes sizes = c.sizes;
  sizes[0] *= call.n;
  return {apart(c, at::affine_grid_generator(flat(c, call.inputs[0]), sizes, c.flag), call.n)};
}

// ----------------------------------------------------------------------------------- unpooling

std::optional<Claimed> claim_unpool(const CallView& call, size_t axes) {
  if (!call.is_tensor(0) || !call.is_tensor(1)) return std::nullopt;
  BatchedConfig c{call.ints(2), {}, {}, call.value(0).sizes.size() == axes + 2, false};
  if (axes == 3) {
    c.stride = call.ints(3);
    c.padding = call.ints(4);
  }
  return Claimed{c, {call.id(0), call.id(1)}, {0}};
}

Tensors unpool2d(const BatchedConfig& c, const WideCall& call) {
  const Tensor x = flat(c, call.inputs[0]), at = flat(c, call.inputs[1]);
  return {apart(c, at::max_unpool2d(x, at, c.sizes), call.n)};
}

Tensors unpool3d(const BatchedConfig& c, const WideCall& call) {
  const Tensor x = flat(c, call.inputs[0]), at = flat(c, call.inputs[1]);
  return {apart(c, at::max_unpool3d(x, at, c.sizes, c.stride, c.padding), call.n)};
}

const char* const kFolded = "N folded into the batch";

WIDE_RULES(
    // theta NB23 -> NBHW2, theta NB34 -> NBDHW3
    {.name = "affine_grid",
     .summary = "Sampling grids of all models at once",
     .claims = {{"aten::affine_grid_generator", claim_grid}},
     .strategies = {strategy<BatchedConfig>("folded", kFolded, grid)}},
    // x NBChw, indices NBChw -> NBCHW
    {.name = "max_unpool2d",
     .summary = "Undoes max pools of all models at once",
     .claims = {{"aten::max_unpool2d", [](const CallView& c) { return claim_unpool(c, 2); }}},
     .strategies = {strategy<BatchedConfig>("folded", kFolded, unpool2d)}},
    // x NBCdhw, indices NBCdhw -> NBCDHW
    {.name = "max_unpool3d",
     .summary = "Undoes max pools of all models at once",
     .claims = {{"aten::max_unpool3d", [](const CallView& c) { return claim_unpool(c, 3); }}},
     .strategies = {strategy<BatchedConfig>("folded", kFolded, unpool3d)}});

}  // namespace
}  // namespace wide::batched_rules
