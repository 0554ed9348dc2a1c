#include "engine/lower/memory/out_variant.h"

#include <ATen/ATen.h>

#include <map>

#include "engine/lower/plan/operator_traits.h"

namespace wide {

namespace {

Stack unchanged(Stack stack) { return stack; }

/// Turns the scalar argument into a zero-dimensional tensor, since ATen's scalar overloads have no
/// out-kernel of their own.
Stack scalar_as_tensor(Stack stack) {
  Tensor number = c10::scalar_to_tensor(stack[1].toScalar());
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  stack[1] = number;
  return stack;
}

Stack append_zero(Stack stack) {
  stack.emplace_back(at::Scalar(0));
  return stack;
}

Stack source_only(Stack stack) {
  stack.resize(1);
  return stack;
}

struct Row {
  const char *name, *overload;
  Stack (*adapt)(Stack);
};

/// Operators whose own out-form is missing or generated (computes, then copies).
const std::map<std::string, Row>& rows() {
  static const std::map<std::string, Row> table{
      {"aten::relu", {"aten::clamp_min", "out", append_zero}},
      {"aten::mul.Scalar", {"aten::mul", "out", scalar_as_tensor}},
      {"aten::div.Scalar", {"aten::div", "out", scalar_as_tensor}},
      {"aten::add.Scalar", {"aten::add", "out", scalar_as_tensor}},
      {"aten::sub.Scalar", {"aten::sub", "out", scalar_as_tensor}},
      // copy_ takes the destination first: the plan puts it there.
      {"aten::clone", {"aten::copy_", "", source_only}},
      {"aten::_to_copy", {"aten::copy_", "", source_only}},
  };
  return table;
}

/// Whether LibTorch's own out-form of this node gives wrong numbers. Those of batch norms read
/// input and result by one set of strides; that of binary_cross_entropy resizes the result of a
/// reduction and leaves it unwritten.
bool is_wrong(const Program& program, const Node& node) {
  const std::string& name = node.op.schema().operator_name().name;
  if (name == "aten::binary_cross_entropy") return true;
  if (name != "aten::native_batch_norm" && name != "aten::_native_batch_norm_legit") return false;
  return !same_layout(program.value(node.arguments.at(0).values.at(0)),
                      program.value(node.results.at(0).values.at(0)));
}

bool writes_in_place(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::pointwise) || operator_traits(op).in_place;
}

/// Whether the candidate has the same arguments, then an out-tensor for each returned tensor.
bool is_out_form(const c10::FunctionSchema& functional, const c10::FunctionSchema& candidate) {
  const size_t n = functional.arguments().size();
  if (candidate.arguments().size() != n + functional.returns().size()) return false;
  for (size_t i = 0; i < n; ++i)
    if (*candidate.arguments()[i].type() != *functional.arguments()[i].type()) return false;
  for (size_t i = n; i < candidate.arguments().size(); ++i)
    if (!candidate.arguments()[i].is_out()) return false;
  return true;
}

}  // namespace

std::optional<OutVariant> find_out_variant(const Program& program, const Node& node,
                                           c10::DeviceType device) {
  if (is_wrong(program, node)) return std::nullopt;
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto key = c10::computeDispatchKey(std::nullopt, std::nullopt, c10::Device(device));
  if (auto row = rows().find(node.name()); row != rows().end()) {
    auto op = dispatcher.findSchema({row->second.name, row->second.overload});
    if (op) return OutVariant{*op, row->second.adapt, writes_in_place(node.op)};
    return std::nullopt;
  }
  for (const Argument& r : node.results)
    if (r.kind != Argument::Kind::value) return std::nullopt;
  const auto& schema = node.op.schema();
  const std::string& overload = schema.operator_name().overload_name;
  for (const std::string& suffix :
       {std::string("out"), std::string("grad_input"), overload + "_out",
        overload == "dim" ? std::string("out") : overload}) {
    auto op = dispatcher.findSchema({schema.operator_name().name, suffix});
    if (op && is_out_form(schema, op->schema()) && op->hasKernelForDispatchKey(key))
      return OutVariant{*op, unchanged, writes_in_place(node.op)};
  }
  return std::nullopt;
}

}  // namespace wide
