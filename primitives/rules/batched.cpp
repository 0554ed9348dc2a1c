// Rules for operators that treat every sample of a batch alike and that functorch has none for: N
// is folded into the batch, one row each.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide {
namespace {

struct BatchedConfig {
  Sizes sizes, stride, padding;  // as the operator's own
  bool batched = true;           // false: one sample without a batch
  bool flag = false;
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

/// Targets without a network: rules, listed nowhere.
Target rule(const char* name, const char* summary, Claim claim, Strategy how, size_t inputs) {
  Target t;
  t.name = name;
  t.family = "views";
  t.summary = summary;
  t.claims = {std::move(claim)};
  t.strategies = {std::move(how)};
  t.parameter_inputs.assign(inputs, false);
  return t;
}

[[maybe_unused]] const bool registered[] = {
    add_target(rule("affine_grid", "Sampling grids of all models at once",
                    {"aten::affine_grid_generator", claim_grid},
                    strategy<BatchedConfig>("folded", "N folded into the batch", grid), 1),
               __FILE__),
    add_target(rule("max_unpool2d", "Undoes max pools of all models at once",
                    {"aten::max_unpool2d", [](const CallView& c) { return claim_unpool(c, 2); }},
                    strategy<BatchedConfig>("folded", "N folded into the batch", unpool2d), 2),
               __FILE__),
    add_target(rule("max_unpool3d", "Undoes max pools of all models at once",
                    {"aten::max_unpool3d", [](const CallView& c) { return claim_unpool(c, 3); }},
                    strategy<BatchedConfig>("folded", "N folded into the batch", unpool3d), 2),
               __FILE__)};

}  // namespace
}  // namespace wide
