#include <fmt/format.h>

#include <set>

#include "engine/passes/pass.h"

namespace wide::layout_pass {

namespace {

/// Whether the node is a view with every element of its argument exactly once.
bool is_bijective_view(const Node& node, const Program& program) {
  static const std::set<std::string> names{
      "aten::view",    "aten::_unsafe_view", "aten::permute", "aten::transpose",
      "aten::t",       "aten::unsqueeze",    "aten::squeeze", "aten::expand",
      "aten::alias",   "aten::detach",       "aten::movedim", "aten::_reshape_alias",
      "aten::reshape", "aten::slice",        "aten::view_as", "aten::unflatten"};
  if (!names.count(node.op.schema().operator_name().name)) return false;
  if (node.results.size() != 1 || node.results[0].kind != Argument::Kind::value) return false;
  if (node.arguments[0].kind != Argument::Kind::value) return false;
  const Value& in = program.value(node.arguments[0].values[0]);
  const Value& out = program.value(node.results[0].values[0]);
  return in.dtype == out.dtype && in.numel() == out.numel();
}

/// Whether the node is a copy: as programs do not mutate, the original can be used instead.
bool is_copy(const Node& node) {
  const std::string& name = node.op.schema().operator_name().name;
  return (name == "aten::clone" || name == "aten::_to_copy") &&
         node.arguments[0].kind == Argument::Kind::value;
}

bool multiplies_by_one(const Node& node) {
  if (node.name() != "aten::mul.Scalar" && node.name() != "aten::div.Scalar") return false;
  const IValue& by = node.arguments[1].constant;
  return (by.isInt() && by.toInt() == 1) || (by.isDouble() && by.toDouble() == 1.0);
}

/// Removes permutes between N-first and channel-packed that cancel: elementwise operators keep
/// their argument's strides, so after `permute, relu, permute back` the last view has the sizes and
/// strides of an earlier value in its chain, which replaces it.
std::string run(Program& program) {
  int64_t cancelled = 0;
  // By value: the node that made it as a bijective view, or -1.
  ByValue<int32_t> viewed_by(program.values.size(), -1);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (node.results.size() != 1 || node.results[0].kind != Argument::Kind::value) continue;
    const ValueId made = node.results[0].values[0];
    const Value& out = program.value(made);
    if (is_copy(node) || multiplies_by_one(node)) {
      const ValueId from = node.arguments[0].values[0];
      if (same_layout(program.value(from), out)) {
        program.replace_uses(made, from);
        ++cancelled;
      }
      continue;
    }
    if (!is_bijective_view(node, program)) continue;
    viewed_by[made] = static_cast<int32_t>(i);
    // Finds the furthest ancestor with the same layout.
    ValueId same = kNone;
    for (ValueId at = node.arguments[0].values[0];;) {
      if (same_layout(program.value(at), out)) same = at;
      const int32_t by = viewed_by[at];
      if (by < 0) break;
      at = program.nodes[static_cast<size_t>(by)].arguments[0].values[0];
    }
    if (same == kNone) continue;
    program.replace_uses(made, same);
    ++cancelled;
  }
  return fmt::format("cancelled {} views and copies", cancelled);
}

[[maybe_unused]] const bool registered =
    add_pass({"layout", "removes permutes that cancel and copies that are not needed",
              Stage::program, 30, run, /*portable=*/true});

}  // namespace

}  // namespace wide::layout_pass
