#include "data/networks/pt2/out_variant.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

namespace wide::pt2 {
namespace {

constexpr const char* kAten = "torch.ops.aten.";
constexpr const char* kOut = "out";

bool is_out(const c10::Argument& a) {
  return a.name() == kOut && a.kwarg_only() && a.alias_info() && a.alias_info()->isWrite();
}

/// Whether `plain` has the arguments of `with_out` except `out`, and returns one new tensor.
bool is_same_without(const c10::FunctionSchema& plain, const c10::FunctionSchema& with_out) {
  const auto &few = plain.arguments(), &all = with_out.arguments();
  if (few.size() + 1 != all.size() || plain.returns().size() != 1 || plain.is_mutable())
    return false;
  return std::equal(few.begin(), few.end(), all.begin(),
                    [](const c10::Argument& a, const c10::Argument& b) {
                      return a.name() == b.name() && *a.type() == *b.type();
                    });
}

}  // namespace

std::optional<std::pair<Node, Node>> without_out(const Node& node) {
  if (node.target.rfind(kAten, 0) != 0 || node.outputs.size() != 1) return std::nullopt;
  const std::string path = node.target.substr(std::string(kAten).size());
  const size_t dot = path.find('.');
  if (dot == std::string::npos) return std::nullopt;
  auto& dispatcher = c10::Dispatcher::singleton();
  const std::string name = "aten::" + path.substr(0, dot);
  const auto op = dispatcher.findSchema({name, path.substr(dot + 1)});
  const auto given = std::find_if(node.inputs.begin(), node.inputs.end(),
                                  [](const NamedArgument& a) { return a.name == kOut; });
  if (!op || given == node.inputs.end() || op->schema().returns().size() != 1 ||
      op->schema().arguments().empty() || !is_out(op->schema().arguments().back()))
    return std::nullopt;
  for (const c10::OperatorName& other : dispatcher.getAllOpNames()) {
    if (other.name != name) continue;
    const auto plain = dispatcher.findSchema(other);
    if (!plain || !is_same_without(plain->schema(), op->schema())) continue;
    Node computes = node, copies;
    computes.target = kAten + path.substr(0, dot) + "." +
                      (other.overload_name.empty() ? "default" : other.overload_name);
    computes.inputs.erase(computes.inputs.begin() + (given - node.inputs.begin()));
    Argument made = node.outputs[0];
    if (made.items.size() != 1) return std::nullopt;
    made.items[0].name = "before out " + made.items[0].name;  // names in files have no spaces
    computes.outputs = {made};
    copies.target = "torch.ops.aten.copy_.default";
    copies.inputs = {{"self", given->value}, {"src", made}};
    copies.outputs = node.outputs;
    return std::pair(computes, copies);
  }
  return std::nullopt;
}

}  // namespace wide::pt2
