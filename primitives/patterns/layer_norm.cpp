#include "primitives/patterns/layer_norm.h"

#include <algorithm>

namespace wide {
namespace {

class Reader {
 public:
  explicit Reader(const PatternView& view) : view_(view) {}

  std::optional<WrittenNorm> read(size_t last) {
    const CallView add = view_.call(last);
    if (!two_tensors(last) || add.number(2, 1) != 1) return std::nullopt;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      norm_ = {};
      norm_.bias = add.id(side);
      if (affine(add.id(1 - side)) && is_row(norm_.weight) && is_row(norm_.bias)) {
        std::sort(norm_.nodes.begin(), norm_.nodes.end());
        return norm_;
      }
    }
    return std::nullopt;
  }

 private:
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

  /// Matches normal * weight.
  bool affine(ValueId id) {
    const auto product = take(id, "aten::mul");
    if (!product || !two_tensors(*product)) return false;
    const CallView call = view_.call(*product);
    const std::vector<size_t> before = norm_.nodes;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      norm_.nodes = before;
      norm_.weight = call.id(side);
      if (normal(call.id(1 - side))) return true;
    }
    return false;
  }

  /// Matches centred / sqrt(variance + eps), or times the root's inverse.
  bool normal(ValueId id) {
    if (const auto quotient = take(id, "aten::div")) {
      const CallView call = view_.call(*quotient);
      if (!two_tensors(*quotient) || call.size() > 2) return false;
      const auto root = take(call.id(1), "aten::sqrt");
      return root && centred(call.id(0)) && variance_and_eps(view_.call(*root).id(0));
    }
    const auto product = take(id, "aten::mul");
    if (!product || !two_tensors(*product)) return false;
    const CallView call = view_.call(*product);
    for (const size_t side : {size_t{0}, size_t{1}})
      if (const auto root = view_.made_by(call.id(side), "aten::rsqrt")) {
        norm_.nodes.push_back(*root);
        return centred(call.id(1 - side)) && variance_and_eps(view_.call(*root).id(0));
      }
    return false;
  }

  /// Matches x - mean(x).
  bool centred(ValueId id) {
    const auto difference = take(id, "aten::sub");
    if (!difference || !two_tensors(*difference)) return false;
    const CallView call = view_.call(*difference);
    if (call.number(2, 1) != 1) return false;
    const auto mean = take(call.id(1), "aten::mean");
    if (!mean || !over_last_axis(*mean, 2) || view_.call(*mean).id(0) != call.id(0)) return false;
    norm_.x = call.id(0);
    centred_ = id;
    return view_.meta(norm_.x).sizes.size() > 1;
  }

  bool variance_and_eps(ValueId id) {
    const auto sum = take(id, "aten::add");
    if (!sum || !view_.call(*sum).is_tensor(0)) return false;
    const auto eps = view_.number(*sum, 1);
    if (!eps) return false;
    norm_.eps = *eps;
    const ValueId variance = view_.call(*sum).id(0);
    if (const auto own = take(variance, "aten::var")) {
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
  WrittenNorm norm_;
  ValueId centred_ = kNone;
};

}  // namespace

std::optional<WrittenNorm> layer_norm_written_out(const PatternView& view, size_t node) {
  return Reader(view).read(node);
}

}  // namespace wide
