// Rules for nll_loss and its gradient, for which functorch has no batching rule. Cross entropy with
// label smoothing is recorded as other operators, since LibTorch's own form drops ignored rows, and
// how many these are depends on the data.
#include <ATen/ATen.h>

#include "engine/record/checks/data_dependence.h"
#include "engine/record/record.h"
#include "engine/widen/describe.h"

namespace wide::losses_rules {
namespace {

// ---------------------------------------------------------------------------------- nll_loss

struct LossConfig {
  int64_t reduction = at::Reduction::Mean, ignore = -100;
  std::string text() const { return fmt::format("reduction={} ignore={}", reduction, ignore); }
};

/// Arguments: the gradient if `backward`, then self, target, weight, reduction, ignore, and if
/// `backward` the sum of weights. `images`: self is `[B, C, H, W]`, else one row or several.
template <bool backward, bool images>
std::optional<Claimed> claim(const CallView& call) {
  const size_t self = backward ? 1 : 0;
  for (size_t i = 0; i < self + 2; ++i)
    if (!call.is_tensor(i)) return std::nullopt;
  const size_t rank = call.value(self).sizes.size();
  if (images ? rank != 4 : rank > 2) return std::nullopt;
  const LossConfig c{static_cast<int64_t>(call.number(self + 3, 1)),
                     static_cast<int64_t>(call.number(self + 4, -100))};
  if (backward)
    return Claimed{c, {call.id(1), call.id(2), call.id(3), call.id(0), call.id(6)}, {0}};
  return Claimed{c, {call.id(0), call.id(1), call.id(2)}, {0, 1}};
}

/// For each row its class (0 if ignored) and weight (0 if ignored).
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
  const Tensor total = r.weight.sum(1);  // without a reduction only for the gradient
  if (c.reduction == at::Reduction::None)
    return {self.dim() == 3 ? losses : losses.squeeze(1), total};
  return {c.reduction == at::Reduction::Mean ? losses.sum(1) / total : losses.sum(1), total};
}

Tensors nll_backward(const LossConfig& c, const WideCall& call) {
  const Tensor &self = call.inputs[0], &grad = call.inputs[3], &total = call.inputs[4];
  const Rows r = rows(c, call);
  Tensor per_row = grad.dim() == 2 ? grad : grad.unsqueeze(1);  // one per row, or one per model
  if (c.reduction == at::Reduction::Mean) per_row = per_row / total.unsqueeze(1);
  const Tensor values = (-r.weight * per_row).unsqueeze(2);
  const Tensor shape = self.dim() == 3 ? self : self.unsqueeze(1);
  const Tensor out = at::zeros_like(shape, at::MemoryFormat::Contiguous)
                         .scatter(2, r.classes.unsqueeze(2), values);
  return {self.dim() == 3 ? out : out.squeeze(1)};
}

/// A call over images `[N, B, C, H, W]` as one over rows: every pixel is a row.
WideCall as_rows(const WideCall& call) {
  WideCall flat = call;
  flat.inputs[0] = call.inputs[0].movedim(2, -1).flatten(1, 3);
  flat.inputs[1] = call.inputs[1].flatten(1);
  return flat;
}

Tensors nll2d_forward(const LossConfig& c, const WideCall& call) {
  Tensors made = nll_forward(c, as_rows(call));
  if (c.reduction == at::Reduction::None) made[0] = made[0].view(call.inputs[1].sizes());
  return made;
}

Tensors nll2d_backward(const LossConfig& c, const WideCall& call) {
  WideCall flat = as_rows(call);
  if (c.reduction == at::Reduction::None) flat.inputs[3] = call.inputs[3].flatten(1);
  const auto s = call.inputs[0].sizes();
  const Tensor made = nll_backward(c, flat)[0];
  return {made.view({s[0], s[1], s[3], s[4], s[2]}).movedim(-1, 2)};
}

// --------------------------------------------------------------------------- label smoothing

// Arguments: self, target, weight, reduction, ignore, smoothing.

bool smooths_classes(c10::ArrayRef<IValue> in) {
  return in[5].toDouble() > 0 && in[0].toTensor().sizes() != in[1].toTensor().sizes();
}

Stack smoothed_cross_entropy(c10::ArrayRef<IValue> in) {
  const Tensor scores = in[0].toTensor(), target = in[1].toTensor();
  const std::optional<Tensor> weight = in[2].toOptional<Tensor>();
  const int64_t reduction = in[3].toInt(), ignore = in[4].toInt();
  const double smoothing = in[5].toDouble();
  const int64_t axis = scores.dim() == 1 ? 0 : 1, classes = scores.size(axis);
  const Tensor logs = at::log_softmax(scores, axis), ignored = target.eq(ignore);
  const Tensor hard = at::nll_loss_nd(logs, target, weight, reduction, ignore);
  Tensor weighed = logs;
  if (weight) {
    Sizes sizes(static_cast<size_t>(scores.dim()), 1);
    sizes[static_cast<size_t>(axis)] = classes;
    weighed = logs * weight->view(sizes);
  }
  Tensor smooth = -weighed.sum(axis).masked_fill(ignored, 0);
  if (reduction != at::Reduction::None) smooth = smooth.sum();
  if (reduction == at::Reduction::Mean) {
    const Tensor counts =
        weight ? weight->index_select(0, target.masked_fill(ignored, 0).flatten()).view_as(target)
               : at::ones_like(target, scores.options());
    smooth = smooth / counts.masked_fill(ignored, 0).sum();
  }
  return {hard * (1 - smoothing) + smooth * (smoothing / static_cast<double>(classes))};
}

// Class weights are not listed as parameters, as all models may share them.
WIDE_RULES(
    // x NBC, class NB, weight NC -> N, sum of weights N; without a reduction NB
    {.name = "nll_loss",
     .summary = "Negative log likelihood of class targets, one loss per model",
     .claims = {{"aten::nll_loss_forward", claim<false, false>}},
     .strategies = {strategy<LossConfig>("wide", "gather, weigh and sum per model", nll_forward)}},
    // gradient N, x NBC, class NB, weight NC, sum of weights N -> NBC
    {.name = "nll_loss_backward",
     .summary = "Gradient of the negative log likelihood",
     .claims = {{"aten::nll_loss_backward", claim<true, false>}},
     .strategies = {strategy<LossConfig>("wide", "scatter per model", nll_backward)}},
    // x NBCHW, class NBHW, weight NC -> N, sum of weights N; without a reduction NBHW
    {.name = "nll_loss2d",
     .summary = "Negative log likelihood of every pixel's class",
     .claims = {{"aten::nll_loss2d_forward", claim<false, true>}},
     .strategies = {strategy<LossConfig>("wide", "pixels as rows", nll2d_forward)}},
    // gradient N, x NBCHW, class NBHW, weight NC, sum of weights N -> NBCHW
    {.name = "nll_loss2d_backward",
     .summary = "Gradient of the negative log likelihood of every pixel's class",
     .claims = {{"aten::nll_loss2d_backward", claim<true, true>}},
     .strategies = {strategy<LossConfig>("wide", "pixels as rows", nll2d_backward)}});

[[maybe_unused]] const bool registered[] = {
    // Both overloads are tagged as dynamic in shape; here the lengths that decide it are numbers.
    add_data_dependence(
        {"aten::_ctc_loss", [](const Program&, const Node&) { return std::vector<ValueId>{}; }}),
    add_data_dependence(
        {"aten::_ctc_loss.Tensor",
         [](const Program&, const Node& node) {
           return std::vector<ValueId>{node.arguments[2].values[0], node.arguments[3].values[0]};
         }}),
    add_decomposition({"aten::cross_entropy_loss", "with label smoothing it selects rows by data",
                       smooths_classes, smoothed_cross_entropy})};

}  // namespace
}  // namespace wide::losses_rules
