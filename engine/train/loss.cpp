#include "engine/train/loss.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/error.h"

namespace wide {
namespace {

std::string shape_of(const Tensor& t) { return fmt::format("[{}]", fmt::join(t.sizes(), ", ")); }

void check_sizes(const Loss& loss, const Tensor& target, c10::IntArrayRef expected) {
  if (target.sizes() == expected) return;
  fail(
      "[train] target of {}: got {}, expected [{}] as the output has it; try to reshape it, sizes "
      "are never broadcast",
      loss.name, shape_of(target), fmt::join(expected, ", "));
}

/// The rows' weights as [B, 1, ...], to broadcast against the numbers [B, ...] of a row.
Tensor spread(const Tensor& row_weight, const Tensor& each) {
  Sizes sizes(static_cast<size_t>(each.dim()), 1);
  sizes[0] = each.size(0);
  return row_weight.view(sizes).expand(each.sizes());
}

/// Sums for class targets: a row's weight is its class's weight times its own, 0 if ignored.
LossSums of_classes(const Loss& loss, const LossInputs& in) {
  const Tensor& x = in.output;
  if (x.dim() < 2)
    fail("[train] output of {}: got {}, expected [B, C, ...]; try another output", loss.name,
         shape_of(x));
  Sizes expected = x.sizes().vec();
  expected.erase(expected.begin() + 1);
  check_sizes(loss, in.target, expected);
  if (in.target.scalar_type() != at::kLong)
    fail("[train] target of {}: got {}, expected int64 classes; try mse or bce_with_logits",
         loss.name, c10::toString(in.target.scalar_type()));
  const Tensor log_p = loss.name == "nll" ? x : at::log_softmax(x, 1);
  const Tensor counts = in.target.ne(loss.ignore_index);
  const Tensor target = at::where(counts, in.target, at::zeros_like(in.target));
  Tensor weight = counts.to(x.scalar_type());
  if (in.weight.defined())
    weight = weight * in.weight.index_select(0, target.reshape(-1)).view(target.sizes());
  if (in.row_weight.defined()) weight = weight * spread(in.row_weight, weight);
  // An ignored row counts for nothing, whatever its logits are: 0 times -inf would be NaN.
  const auto counted = [&](const Tensor& of) { return of.masked_fill(counts.logical_not(), 0); };
  const Tensor picked = counted(log_p.gather(1, target.unsqueeze(1)).squeeze(1));
  Tensor weighted = -(picked * weight).sum();
  if (in.label_smoothing.defined()) {
    // Label smoothing as in torch: the weighted mean over classes, for rows that are not ignored.
    Tensor all = log_p;
    if (in.weight.defined()) {
      Sizes sizes(static_cast<size_t>(x.dim()), 1);
      sizes[1] = x.size(1);
      all = all * in.weight.view(sizes);
    }
    Tensor rows = counts.to(x.scalar_type());
    if (in.row_weight.defined()) rows = rows * spread(in.row_weight, rows);
    const Tensor smooth = -(counted(all.sum(1)) * rows).sum() / double(x.size(1));
    weighted = (1 - in.label_smoothing) * weighted + in.label_smoothing * smooth;
  }
  return {weighted, weight.sum()};
}

/// The loss of each number of the output.
Tensor of_numbers(const Loss& loss, const LossInputs& in) {
  check_sizes(loss, in.target, in.output.sizes());
  const Tensor &x = in.output, &y = in.target;
  if (loss.name == "mse") return at::mse_loss(x, y, at::Reduction::None);
  if (loss.name == "l1") return at::l1_loss(x, y, at::Reduction::None);
  if (loss.name == "huber") return at::huber_loss(x, y, at::Reduction::None, loss.delta);
  return at::binary_cross_entropy_with_logits(
      x, y, {}, in.pos_weight.defined() ? std::optional(in.pos_weight) : std::nullopt,
      at::Reduction::None);
}

}  // namespace

const std::vector<std::string>& loss_names() {
  static const std::vector<std::string> names{"cross_entropy",   "nll",   "mse", "l1", "huber",
                                              "bce_with_logits", "output"};
  return names;
}

void Loss::check() const {
  const auto& names = loss_names();
  if (std::ranges::find(names, name) == names.end())
    fail("[train] loss: got {}, expected one of {}; try {}", name, fmt::join(names, ", "),
         nearest(name, names, "cross_entropy"));
  if (weight.defined() && !classifies())
    fail(
        "[train] weight: got one of classes with {}, expected cross_entropy or nll; try weights of "
        "rows",
        name);
  if (weight.defined() && (weight.dim() < 1 || weight.dim() > 2))
    fail("[train] weight: got {}, expected [C] or [N, C]; try one number a class",
         shape_of(weight));
  if (pos_weight.defined() && name != "bce_with_logits")
    fail("[train] pos_weight: got one with {}, expected bce_with_logits; try weight", name);
  if (!(delta > 0)) fail("[train] delta: got {}, expected above 0; try 1", delta);
}

LossSums loss_sums(const Loss& loss, const LossInputs& in) {
  if (!at::isFloatingType(in.output.scalar_type()))
    fail("[train] output {}: got {}, expected real numbers; try another output", loss.output,
         c10::toString(in.output.scalar_type()));
  if (loss.classifies()) return of_classes(loss, in);
  const Tensor each = loss.name == "output" ? in.output : of_numbers(loss, in);
  if (loss.name == "output" && (each.dim() > 1 || (each.dim() == 0 && in.row_weight.defined())))
    fail("[train] output {} as the loss: got {}, expected a number{}; try a mean over the others",
         loss.output, shape_of(each), in.row_weight.defined() ? " for each row" : " or one a row");
  if (!in.row_weight.defined())
    return {each.sum(), at::full({}, double(each.numel()), each.options())};
  if (each.dim() == 0 || each.size(0) != in.row_weight.size(0))
    fail("[train] weights of rows: got {}, expected one for each row of {}; try [B]",
         shape_of(in.row_weight), shape_of(each));
  const Tensor weight = spread(in.row_weight, each);
  return {(each * weight).sum(), weight.sum()};
}

}  // namespace wide
