#include "primitives/patterns/norms.h"

namespace wide {
namespace {

class Reader {
 public:
  /// `rms`: x itself is divided, not its distance from the mean.
  Reader(const PatternView& view, bool rms) : view_(view), rms_(rms) {}

  std::optional<WrittenNorm> layer(size_t last) {
    const CallView add = view_.call(last);
    if (!two_tensors(last) || add.number(2, 1) != 1) return std::nullopt;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      norm_ = {};
      norm_.bias = add.id(side);
      const auto product = take(add.id(1 - side), "aten::mul");
      if (product && weighted(*product) && is_row(norm_.bias)) return norm_;
    }
    return std::nullopt;
  }

  std::optional<WrittenNorm> root_mean_square(size_t last) {
    if (normal(last)) return norm_;
    norm_ = {};
    return is(last, "aten::mul") && weighted(last) ? std::optional(norm_) : std::nullopt;
  }

 private:
  bool is(size_t node, const char* op) const {
    return view_.node(node).op.schema().operator_name().name == op;
  }
  bool two_tensors(size_t node) const {
    return view_.call(node).is_tensor(0) && view_.call(node).is_tensor(1);
  }
  bool is_row(ValueId id) const {
    return view_.meta(id).sizes == Sizes{view_.meta(norm_.x).sizes.back()};
  }
  std::optional<size_t> take(ValueId id, const char* op) {
    const auto node = view_.made_by(id, op);
    if (node) norm_.nodes.push_back(*node);
    return node;
  }
  /// Takes the node; its first argument.
  std::optional<ValueId> under(ValueId id, const char* op) {
    const auto node = take(id, op);
    return node ? std::optional(view_.call(*node).id(0)) : std::nullopt;
  }

  /// Matches normal * weight.
  bool weighted(size_t product) {
    const CallView call = view_.call(product);
    if (!two_tensors(product)) return false;
    const std::vector<size_t> before = norm_.nodes;
    for (const size_t side : {size_t{0}, size_t{1}})
      for (const char* op : {"aten::div", "aten::mul"}) {
        norm_.nodes = before;
        norm_.weight = call.id(side);
        const auto inner = take(call.id(1 - side), op);
        if (inner && normal(*inner) && is_row(norm_.weight)) return true;
      }
    return false;
  }

  /// Matches centred / sqrt(variance + eps), or times the root's inverse.
  bool normal(size_t node) {
    const CallView call = view_.call(node);
    if (!two_tensors(node)) return false;
    if (is(node, "aten::div")) {
      if (call.size() > 2) return false;  // with rounding
      const auto sum = under(call.id(1), "aten::sqrt");
      return sum && centred(call.id(0)) && variance_and_eps(*sum);
    }
    const std::vector<size_t> before = norm_.nodes;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      norm_.nodes = before;
      const auto sum = under_inverse_root(call.id(side));
      if (sum && centred(call.id(1 - side)) && variance_and_eps(*sum)) return true;
    }
    return false;
  }

  /// The argument of 1 / sqrt: by rsqrt, a power, or the reciprocal of a root.
  std::optional<ValueId> under_inverse_root(ValueId id) {
    if (const auto sum = under(id, "aten::rsqrt")) return sum;
    if (const auto root = under(id, "aten::reciprocal")) return under(*root, "aten::sqrt");
    const auto power = take(id, "aten::pow");
    return power && view_.number(*power, 1) == -0.5 ? std::optional(view_.call(*power).id(0))
                                                    : std::nullopt;
  }

  /// Matches x - mean(x); for `rms` x.
  bool centred(ValueId id) {
    norm_.x = centred_ = id;
    if (rms_) return true;
    const auto difference = take(id, "aten::sub");
    if (!difference || !two_tensors(*difference)) return false;
    const CallView call = view_.call(*difference);
    if (call.number(2, 1) != 1) return false;
    const auto mean = take(call.id(1), "aten::mean");
    if (!mean || !over_last_axis(*mean, 2) || view_.call(*mean).id(0) != call.id(0)) return false;
    norm_.x = call.id(0);
    return view_.meta(norm_.x).sizes.size() > 1;
  }

  bool variance_and_eps(ValueId id) {
    const auto sum = take(id, "aten::add");
    if (!sum || !view_.call(*sum).is_tensor(0)) return false;
    const auto eps = view_.number(*sum, 1);
    if (!eps) return false;
    norm_.eps = *eps;
    const ValueId variance = view_.call(*sum).id(0);
    if (const auto own = rms_ ? std::nullopt : take(variance, "aten::var")) {
      const CallView call = view_.call(*own);  // x, axes, correction, keepdim
      return call.id(0) == norm_.x && call.number(2, 1) == 0 && over_last_axis(*own, 3);
    }
    const auto mean = take(variance, "aten::mean");
    if (!mean || !over_last_axis(*mean, 2)) return false;
    const ValueId squared = view_.call(*mean).id(0);
    if (const auto power = take(squared, "aten::pow"))
      return view_.call(*power).id(0) == centred_ && view_.number(*power, 1) == 2.0;
    const auto product = take(squared, "aten::mul");
    return product && view_.call(*product).id(0) == centred_ &&
           view_.call(*product).id(1) == centred_;
  }

  /// Whether a reduction is over the last axis only and keeps it; `keeps`: index of keepdim.
  bool over_last_axis(size_t node, size_t keeps) const {
    const CallView call = view_.call(node);
    if (call.size() <= keeps || !call.flag(keeps)) return false;
    const Sizes axes = call.ints(1);
    const auto rank = static_cast<int64_t>(call.value(0).sizes.size());
    return axes.size() == 1 && (axes[0] == -1 || axes[0] == rank - 1);
  }

  const PatternView& view_;
  const bool rms_;
  WrittenNorm norm_;
  ValueId centred_ = kNone;
};

}  // namespace

std::optional<WrittenNorm> layer_norm_written_out(const PatternView& view, size_t node) {
  return Reader(view, false).layer(node);
}

std::optional<WrittenNorm> rms_norm_written_out(const PatternView& view, size_t node) {
  return Reader(view, true).root_mean_square(node);
}

}  // namespace wide
