// ATen's operators for which there is a faster kernel here: each has a function that says whether
// a node may be replaced, and replaces it.
#include <fmt/format.h>

#include <map>

#include "engine/passes/pass.h"

namespace wide {
namespace {

using Uses = ByValue<int32_t>;

const Value& operand(const Node& node, const Program& program) {
  return program.value(node.arguments[0].values[0]);
}

bool plain(const Value& v) { return v.device.is_cpu() && v.dtype == at::kFloat && v.strided; }

void become(Node& node, const char* name, std::vector<Argument> arguments) {
  node.op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  node.arguments = std::move(arguments);
  node.results.resize(1);
}

/// A list of one number or two; the kernel's where a stride is not given.
std::vector<int64_t> two(const Node& node, size_t argument) {
  std::vector<int64_t> list = node.arguments[argument].constant.toIntVector();
  if (list.empty()) return two(node, 1);
  return {list.front(), list.back()};
}

/// Max pooling whose indices nobody reads: ATen computes them all the same, at most of its cost.
bool max_pool(Node& node, const Program& program, const Uses& uses) {
  const Value& x = operand(node, program);
  if (uses[node.results[1].values[0]] > 0 || !plain(x) || x.sizes.size() != 4) return false;
  become(node, "wide::max_pool",
         {node.arguments[0], Argument::of(two(node, 1)), Argument::of(two(node, 2)),
          Argument::of(two(node, 3)), Argument::of(two(node, 4)), node.arguments[5]});
  return true;
}

/// Along rows that lie in memory one after the other.
bool softmax(Node& node, const Program& program, bool log) {
  const Value &x = operand(node, program), &y = program.value(node.results[0].values[0]);
  const auto last = static_cast<int64_t>(x.sizes.size()) - 1;
  const int64_t dim = node.arguments[1].constant.toInt();
  if (last < 0 || (dim != last && dim != -1) || !plain(x) || !plain(y) || !x.contiguous() ||
      !y.contiguous())
    return false;
  become(node, "wide::softmax", {node.arguments[0], Argument::of(log)});
  return true;
}

/// The same of its gradient, g and y.
bool softmax_backward(Node& node, const Program& program, bool log) {
  const Value &g = operand(node, program), &y = program.value(node.arguments[1].values[0]),
              &made = program.value(node.results[0].values[0]);
  const auto last = static_cast<int64_t>(y.sizes.size()) - 1;
  const int64_t dim = node.arguments[2].constant.toInt();
  for (const Value* v : {&g, &y, &made})
    if (last < 0 || !plain(*v) || !v->contiguous() || v->sizes != y.sizes) return false;
  if (dim != last && dim != -1) return false;
  become(node, "wide::softmax_backward", {node.arguments[0], node.arguments[1], Argument::of(log)});
  return true;
}

using Replace = bool (*)(Node&, const Program&, const Uses&);

const std::map<std::string, Replace>& replacements() {
  static const std::map<std::string, Replace> all{
      {"aten::max_pool2d_with_indices", max_pool},
      {"aten::_softmax",
       [](Node& n, const Program& p, const Uses&) { return softmax(n, p, false); }},
      {"aten::_softmax_backward_data",
       [](Node& n, const Program& p, const Uses&) { return softmax_backward(n, p, false); }},
      {"aten::_log_softmax_backward_data",
       [](Node& n, const Program& p, const Uses&) { return softmax_backward(n, p, true); }},
      {"aten::_log_softmax",
       [](Node& n, const Program& p, const Uses&) { return softmax(n, p, true); }},
  };
  return all;
}

std::string run(Program& program) {
  const Uses uses = program.uses();
  std::map<std::string, int64_t> counts;
  for (Node& node : program.nodes) {
    const std::string name = node.name();
    const auto it = replacements().find(name);
    if (it != replacements().end() && node.arguments[0].kind == Argument::Kind::value &&
        it->second(node, program, uses))
      ++counts[name];
  }
  std::vector<std::string> words;
  for (const auto& [name, count] : counts) words.push_back(fmt::format("{} {}", count, name));
  return words.empty() ? "replaced nothing"
                       : "replaced " + fmt::format("{}", fmt::join(words, ", "));
}

[[maybe_unused]] const bool registered =
    add_pass({"faster-kernels", "kernels of our own: max pools without indices, softmax of rows",
              Stage::program, 95, run});

}  // namespace
}  // namespace wide
