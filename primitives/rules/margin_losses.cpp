// Rules for losses per sample without a batching rule: margin losses and CTC. N is folded into the
// batch, and the reduction is done per model afterwards.
#include <ATen/ATen.h>

#include "engine/record/record.h"
#include "engine/widen/describe.h"

namespace wide::margin_losses_rules {
namespace {

struct MarginConfig {
  std::string op;
  int64_t reduction = at::Reduction::Mean;
  double p = 1, margin = 1;
  std::string text() const {
    return fmt::format("{} reduction={} p={} margin={}", op, reduction, p, margin);
  }
};

Tensor reduced(const Tensor& losses, int64_t reduction) {  // losses [N, ...]
  if (reduction == at::Reduction::None) return losses;
  const Tensor flat = losses.reshape({losses.size(0), -1});
  return reduction == at::Reduction::Mean ? flat.mean(1) : flat.sum(1);
}

/// The gradient of each loss, of `sizes`, from the gradient of the reduced losses.
Tensor spread(const Tensor& grad, c10::IntArrayRef sizes, int64_t reduction) {
  if (reduction == at::Reduction::None) return grad;
  Sizes one(sizes.size(), 1);
  one[0] = sizes[0];
  int64_t samples = 1;
  for (size_t i = 1; i < sizes.size(); ++i) samples *= sizes[i];
  const Tensor each = reduction == at::Reduction::Mean ? grad / static_cast<double>(samples) : grad;
  return each.reshape(one).expand(sizes);
}

bool scores(const CallView& call, size_t i) {
  return call.is_tensor(i) && (call.value(i).sizes.size() == 1 || call.value(i).sizes.size() == 2);
}

/// One sample without a batch axis, `[N, C]`, as a batch of one.
Tensor batch(const Tensor& t, bool single) { return single ? t.unsqueeze(1) : t; }

// ------------------------------------------------------------------------ multi_margin_loss

// self, target, p, margin, weight, reduction; backward: the gradient in front
std::optional<Claimed> claim_multi(const CallView& call, bool backward) {
  const size_t at = backward ? 1 : 0;
  if (!scores(call, at) || !call.is_tensor(at + 1)) return std::nullopt;
  MarginConfig c{backward ? "multi backward" : "multi",
                 static_cast<int64_t>(call.number(at + 5, 1)), call.number(at + 2, 1),
                 call.number(at + 3, 1)};
  std::vector<ValueId> inputs{call.id(at), call.id(at + 1), call.id(at + 4)};
  if (backward) inputs.push_back(call.id(0));
  return Claimed{c, inputs, {0}};
}

Tensors multi_margin(const MarginConfig& c, const WideCall& call) {
  const bool single = call.inputs[0].dim() == 2;
  const Tensor x = batch(call.inputs[0], single), &weight = call.inputs[2];
  const Tensor target = call.inputs[1].reshape({call.n, -1});
  const Tensor flat = x.flatten(0, 1), classes = target.flatten();
  // Class weights multiply losses afterwards, since each model has its own.
  const Tensor scale = weight.defined() ? weight.gather(1, target) : Tensor();
  if (call.inputs.size() > 3) {
    const Tensor& given = call.inputs[3];
    Tensor grad = c.reduction == at::Reduction::None ? given.reshape(target.sizes())
                                                     : spread(given, target.sizes(), c.reduction);
    if (scale.defined()) grad = grad * scale;
    const Tensor out = at::multi_margin_loss_backward(grad.flatten(), flat, classes, c.p, c.margin,
                                                      {}, at::Reduction::None);
    return {out.view(call.inputs[0].sizes())};
  }
  Tensor losses =
      at::multi_margin_loss(flat, classes, c.p, c.margin, {}, at::Reduction::None).view_as(target);
  if (scale.defined()) losses = losses * scale;
  if (c.reduction == at::Reduction::None) return {losses.view(call.inputs[1].sizes())};
  return {reduced(losses, c.reduction)};
}

// ------------------------------------------------------------------- multilabel_margin_loss

// self, target, reduction -> output, is_target; backward: gradient in front, is_target behind
std::optional<Claimed> claim_multilabel(const CallView& call, bool backward) {
  const size_t at = backward ? 1 : 0;
  if (!scores(call, at) || !call.is_tensor(at + 1)) return std::nullopt;
  MarginConfig c{backward ? "multilabel backward" : "multilabel",
                 static_cast<int64_t>(call.number(at + 2, 1)), 1, 1};
  if (backward) return Claimed{c, {call.id(1), call.id(2), call.id(0), call.id(4)}, {0}};
  return Claimed{c, {call.id(0), call.id(1)}, {0, 1}};
}

Tensors multilabel_margin(const MarginConfig& c, const WideCall& call) {
  const bool single = call.inputs[0].dim() == 2;
  const Tensor x = batch(call.inputs[0], single), target = batch(call.inputs[1], single);
  const int64_t reduction =
      single && c.reduction == at::Reduction::None ? int64_t{at::Reduction::Sum} : c.reduction;
  if (call.inputs.size() > 2) {
    const Tensor grad = spread(call.inputs[2], {call.n, x.size(1)}, reduction);
    const Tensor out = at::multilabel_margin_loss_backward(
        grad.flatten(), x.flatten(0, 1), target.flatten(0, 1), at::Reduction::None,
        batch(call.inputs[3], single).flatten(0, 1));
    return {out.view(call.inputs[0].sizes())};
  }
  const auto [losses, is_target] = at::multilabel_margin_loss_forward(
      x.flatten(0, 1), target.flatten(0, 1), at::Reduction::None);
  return {reduced(losses.view({call.n, x.size(1)}), reduction),
          is_target.view(call.inputs[1].sizes())};
}

// ------------------------------------------------------------------------- soft_margin_loss

std::optional<Claimed> claim_soft(const CallView& call, bool backward) {
  const size_t at = backward ? 1 : 0;
  if (!call.is_tensor(at) || !call.is_tensor(at + 1)) return std::nullopt;
  if (call.value(at).sizes != call.value(at + 1).sizes) return std::nullopt;
  MarginConfig c{backward ? "soft backward" : "soft", static_cast<int64_t>(call.number(at + 2, 1)),
                 1, 1};
  std::vector<ValueId> inputs{call.id(at), call.id(at + 1)};
  if (backward) inputs.push_back(call.id(0));
  return Claimed{c, inputs, {0}};
}

Tensors soft_margin(const MarginConfig& c, const WideCall& call) {
  const Tensor &x = call.inputs[0], &target = call.inputs[1];
  if (call.inputs.size() > 2)
    return {at::soft_margin_loss_backward(spread(call.inputs[2], x.sizes(), c.reduction), x, target,
                                          at::Reduction::None)};
  return {reduced(at::soft_margin_loss(x, target, at::Reduction::None), c.reduction)};
}

// -------------------------------------------------------------------------------------- ctc

struct CtcConfig {
  Sizes input_lengths, target_lengths;
  bool backward = false, zero_infinity = false;
  int64_t blank = 0;
  std::string text() const {
    return fmt::format("blank={} zero_infinity={} backward={} lengths={} {}", blank,
                       zero_infinity ? 1 : 0, backward ? 1 : 0, list_text(input_lengths),
                       list_text(target_lengths));
  }
};

// log_probs, targets, input_lengths, target_lengths, blank, zero_infinity -> loss, log_alpha;
// backward: gradient in front, loss and log_alpha behind the lengths
std::optional<Claimed> claim_ctc(const CallView& call, bool backward) {
  const size_t at = backward ? 1 : 0, blank = backward ? 7 : 4;
  if (!call.is_tensor(at) || call.value(at).sizes.size() != 3 || !call.is_tensor(at + 1) ||
      call.is_tensor(at + 2))
    return std::nullopt;
  const CtcConfig c{call.ints(at + 2), call.ints(at + 3), backward, call.flag(blank + 1),
                    static_cast<int64_t>(call.number(blank, 0))};
  std::vector<ValueId> inputs{call.id(at), call.id(at + 1)};
  if (backward) inputs.insert(inputs.end(), {call.id(0), call.id(5), call.id(6)});
  return Claimed{c, inputs, backward ? std::vector<int>{0} : std::vector<int>{0, 1}};
}

Sizes repeated(const Sizes& lengths, int64_t n) {
  Sizes all;
  for (int64_t i = 0; i < n; ++i) all.insert(all.end(), lengths.begin(), lengths.end());
  return all;
}

Tensors ctc(const CtcConfig& c, const WideCall& call) {
  const Tensor& x = call.inputs[0];  // [N, T, B, C]
  const Tensor scores = x.transpose(0, 1).flatten(1, 2), targets = call.inputs[1].flatten(0, 1);
  const Sizes in = repeated(c.input_lengths, call.n), out = repeated(c.target_lengths, call.n);
  if (c.backward) {
    const Tensor made = at::_ctc_loss_backward(
        call.inputs[2].flatten(), scores, targets, in, out, call.inputs[3].flatten(),
        call.inputs[4].flatten(0, 1), c.blank, c.zero_infinity);
    return {made.unflatten(1, {call.n, x.size(2)}).transpose(0, 1)};
  }
  const auto [loss, alpha] = at::_ctc_loss(scores, targets, in, out, c.blank, c.zero_infinity);
  return {loss.view({call.n, x.size(2)}), alpha.unflatten(0, {call.n, x.size(2)})};
}

// Arguments: log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity.
bool ctc_applies(c10::ArrayRef<IValue> in) {
  return in[2].isIntList() && in[0].toTensor().dim() == 3;
}

/// The loss as LibTorch reduces it, without its tensor filled through a pointer.
Stack ctc_written_out(c10::ArrayRef<IValue> in) {
  const Sizes lengths = in[3].toIntVector();
  const int64_t reduction = in[5].toInt();
  const bool zero_infinity = in[6].toBool();
  Tensor loss = std::get<0>(at::_ctc_loss(in[0].toTensor(), in[1].toTensor(), in[2].toIntVector(),
                                          lengths, in[4].toInt(), zero_infinity));
  if (zero_infinity) loss = loss.masked_fill(loss.eq(INFINITY), 0);
  if (reduction == at::Reduction::Mean) {
    Tensors each = loss.unbind(0);
    for (size_t i = 0; i < each.size(); ++i)
      each[i] = each[i] / static_cast<double>(std::max<int64_t>(lengths[i], 1));
    loss = at::stack(each).mean();
  } else if (reduction == at::Reduction::Sum) {
    loss = loss.sum();
  }
  return {loss};
}

// ------------------------------------------------------------------------------ registration

/// The rule for loss `op`, one result per model, and its gradient.
template <class Config>
Rule loss(const char* name, const char* op,
          std::optional<Claimed> (*claim)(const CallView&, bool backward),
          Tensors (*run)(const Config&, const WideCall&), const char* forward = "") {
  return {
      .name = name,
      .summary = std::string(op) + " and its gradient, one loss per model",
      .claims = {{fmt::format("aten::{}{}", op, forward),
                  [claim](const CallView& c) { return claim(c, false); }},
                 {fmt::format("aten::{}_backward", op),
                  [claim](const CallView& c) { return claim(c, true); }}},
      .strategies = {strategy<Config>("wide", "N folded into the batch, reduced per model", run)}};
}

// Each gives N, or without a reduction NB; its gradient has x's sizes.
WIDE_RULES(
    // x NBC, class NB, weight NC
    loss("multi_margin_loss", "multi_margin_loss", claim_multi, multi_margin),
    // x NBC, classes NBC
    loss("multilabel_margin_loss", "multilabel_margin_loss", claim_multilabel, multilabel_margin,
         "_forward"),
    // x N.., signs N..
    loss("soft_margin_loss", "soft_margin_loss", claim_soft, soft_margin),
    // log probabilities NTBC, labels NBS
    loss("ctc_loss", "_ctc_loss", claim_ctc, ctc));

[[maybe_unused]] const bool registered = add_decomposition(
    {"aten::ctc_loss", "it fills a tensor by address", ctc_applies, ctc_written_out});

}  // namespace
}  // namespace wide::margin_losses_rules
