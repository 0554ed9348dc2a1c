#include "engine/lower/plan/operator_traits.h"

#include <fmt/format.h>

#include <cmath>
#include <unordered_map>

#include "engine/error.h"

namespace wide {

namespace {

std::unordered_map<std::string, OperatorTraits>& known_traits() {
  static std::unordered_map<std::string, OperatorTraits> all;
  return all;
}

}  // namespace

bool add_operator_traits(OperatorTraits traits) {
  const std::string op = traits.op;
  WIDE_ASSERT(known_traits().emplace(op, std::move(traits)).second, "{} has two traits", op);
  return true;
}

const OperatorTraits& operator_traits(const c10::OperatorHandle& op) {
  static const OperatorTraits none{};
  const auto found = known_traits().find(op.schema().operator_name().name);
  return found == known_traits().end() ? none : found->second;
}

std::string activation_text(const Node& node) {
  const std::string& full = node.op.schema().operator_name().name;
  if (full.rfind("aten::", 0) != 0 || node.arguments.empty() ||
      node.arguments[0].kind != Argument::Kind::value)
    return "";
  std::string name = full.substr(6), numbers;
  for (size_t i = 1; i < node.arguments.size(); ++i) {
    const Argument& a = node.arguments[i];
    if (a.kind != Argument::Kind::constant) return "";
    if (a.constant.isString()) {
      if (a.constant.toStringRef() != "none") name += "_" + a.constant.toStringRef();
    } else if (a.constant.isInt() || a.constant.isDouble()) {
      const double number = a.constant.toScalar().toDouble();
      if (std::isnan(number)) return "";
      numbers += fmt::format(" {}", number);
    } else {
      return "";
    }
  }
  return name + numbers;
}

}  // namespace wide
