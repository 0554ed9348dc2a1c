// Rules for the class-target loss in its two directions, for which functorch has no batching rule.
#include <ATen/ATen.h>

#include "engine/describe.h"

namespace wide {
namespace {

// ---------------------------------------------------------------------------------- nll_loss

struct LossConfig {
  int64_t reduction = at::Reduction::Mean, ignore = -100;
  std::string text() const { return fmt::format("reduction={} ignore={}", reduction, ignore); }
};

std::optional<LossConfig> loss_config(const CallView& call, size_t at) {
  return LossConfig{static_cast<int64_t>(call.number(at, 1)),
                    static_cast<int64_t>(call.number(at + 1, -100))};
}

std::optional<Claimed> claim_forward(const CallView& call) {  // self, target, weight, red, ignore
  if (!call.is_tensor(0) || !call.is_tensor(1) || call.value(0).sizes.size() > 2)
    return std::nullopt;
  const auto config = loss_config(call, 3);
  const bool none = config->reduction == at::Reduction::None;
  return Claimed{*config, {call.id(0), call.id(1), call.id(2)}, {0, none ? -1 : 1}};
}

std::optional<Claimed> claim_backward(const CallView& call) {  // grad, self, target, weight, ...
  if (!call.is_tensor(0) || !call.is_tensor(1) || !call.is_tensor(2) ||
      call.value(1).sizes.size() > 2)
    return std::nullopt;
  return Claimed{
      *loss_config(call, 4), {call.id(1), call.id(2), call.id(3), call.id(0), call.id(6)}, {0}};
}

/// Per row: the class (a harmless one where ignored) and its weight (zero where ignored).
struct Rows {
  Tensor classes, weight, ignored;
};

Rows rows(const LossConfig& c, const WideCall& call) {
  const Tensor &self = call.inputs[0], &weight = call.inputs[2];
  Rows r;
  const Tensor target = self.dim() == 3 ? call.inputs[1] : call.inputs[1].unsqueeze(1);
  r.ignored = target.eq(c.ignore);
  r.classes = target.masked_fill(r.ignored, 0);
  r.weight = weight.defined() ? weight.gather(1, r.classes) : at::ones_like(target, self.options());
  r.weight = r.weight.masked_fill(r.ignored, 0);
  return r;
}

Tensors nll_forward(const LossConfig& c, const WideCall& call) {
  const Tensor& self = call.inputs[0];
  const Tensor scores = self.dim() == 3 ? self : self.unsqueeze(1);  // [N, B, C]
  const Rows r = rows(c, call);
  const Tensor picked = scores.gather(2, r.classes.unsqueeze(2)).squeeze(2);
  // An ignored row adds nothing even when its score is infinite.
  const Tensor losses = (-picked * r.weight).masked_fill(r.ignored, 0);
  if (c.reduction == at::Reduction::None) return {self.dim() == 3 ? losses : losses.squeeze(1)};
  const Tensor total = r.weight.sum(1);
  return {c.reduction == at::Reduction::Mean ? losses.sum(1) / total : losses.sum(1), total};
}

Tensors nll_backward(const LossConfig& c, const WideCall& call) {
  const Tensor &self = call.inputs[0], &grad = call.inputs[3], &total = call.inputs[4];
  const Rows r = rows(c, call);
  Tensor per_row = grad.dim() == 2 ? grad : grad.unsqueeze(1);  // reduction none, or one per model
  if (c.reduction == at::Reduction::Mean) per_row = per_row / total.unsqueeze(1);
  const Tensor values = (-r.weight * per_row).unsqueeze(2);
  const Tensor shape = self.dim() == 3 ? self : self.unsqueeze(1);
  const Tensor out = at::zeros_like(shape, at::MemoryFormat::Contiguous)
                         .scatter(2, r.classes.unsqueeze(2), values);
  return {self.dim() == 3 ? out : out.squeeze(1)};
}

Target loss() {
  Target t;
  t.name = "nll_loss";
  t.family = "loss";
  t.summary = "Negative log likelihood of class targets, one loss per model";
  t.claims = {{"aten::nll_loss_forward", claim_forward}};
  t.strategies = {strategy<LossConfig>("wide", "gather, weigh and sum per model", nll_forward)};
  t.parameter_inputs = {false, false, true};
  return t;
}

Target loss_gradient() {
  Target t;
  t.name = "nll_loss_backward";
  t.family = "loss";
  t.summary = "Gradient of the negative log likelihood";
  t.claims = {{"aten::nll_loss_backward", claim_backward}};
  t.strategies = {strategy<LossConfig>("wide", "scatter per model", nll_backward)};
  t.parameter_inputs = {false, false, true};
  return t;
}

[[maybe_unused]] const bool registered[] = {add_target(loss(), __FILE__),
                                            add_target(loss_gradient(), __FILE__)};

}  // namespace
}  // namespace wide
