#include "engine/widen/claim.h"

#include <ATen/ATen.h>

#include "engine/error.h"

namespace wide {

bool CallView::is_tensor(size_t i) const {
  return i < arguments_.size() && arguments_[i].kind == Argument::Kind::value;
}
ValueId CallView::id(size_t i) const { return is_tensor(i) ? arguments_[i].values[0] : kNone; }
const Value& CallView::value(size_t i) const {
  WIDE_ASSERT(is_tensor(i), "argument {} is no tensor", i);
  return meta(arguments_[i].values[0]);
}
const IValue& CallView::constant(size_t i) const { return arguments_.at(i).constant; }
std::vector<ValueId> CallView::list(size_t i) const { return arguments_.at(i).values; }
Sizes CallView::ints(size_t i) const {
  const IValue& v = arguments_.at(i).constant;
  if (v.isInt()) return {v.toInt()};
  return v.isIntList() ? v.toIntVector() : Sizes{};
}
bool CallView::flag(size_t i) const {
  return arguments_.at(i).constant.isBool() && arguments_[i].constant.toBool();
}
double CallView::number(size_t i, double otherwise) const {
  const IValue& v = arguments_.at(i).constant;
  return v.isDouble() ? v.toDouble() : v.isInt() ? static_cast<double>(v.toInt()) : otherwise;
}

std::optional<size_t> PatternView::made_by(ValueId id, const std::string& op) const {
  const int32_t by = id == kNone ? -1 : made_by_[id];
  if (by < 0) return std::nullopt;
  const Node& maker = node(static_cast<size_t>(by));
  if (maker.op.schema().operator_name().name != op || maker.results[0].values.size() != 1 ||
      maker.results[0].values[0] != id)
    return std::nullopt;
  return static_cast<size_t>(by);
}

std::optional<double> PatternView::number(size_t at, size_t i) const {
  if (i >= node(at).arguments.size()) return std::nullopt;
  const Argument& a = node(at).arguments[i];
  if (a.kind == Argument::Kind::value) {
    const Value& v = meta(a.values[0]);
    if (v.role != Role::constant || v.numel() != 1) return std::nullopt;
    return v.constant.item().toDouble();
  }
  if (a.constant.isDouble()) return a.constant.toDouble();
  if (a.constant.isInt()) return static_cast<double>(a.constant.toInt());
  return std::nullopt;
}

}  // namespace wide
