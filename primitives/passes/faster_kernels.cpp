// ATen's operators for which there is a faster kernel here: each has a function that replaces
// a node if it may, and returns whether it did.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/passes/pass.h"
#include "engine/widen/capabilities.h"

namespace wide::faster_kernels_pass {
namespace {

using Uses = ByValue<int32_t>;

const Value& operand(const Node& node, const Program& program) {
  return program.value(node.arguments[0].values[0]);
}

void become(Node& node, const char* name, std::vector<Argument> arguments) {
  node.op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  node.arguments = std::move(arguments);
  node.results.resize(1);
}

/// A list of one number or two; the kernel size if a stride is not given.
std::vector<int64_t> two(const Node& node, size_t argument) {
  std::vector<int64_t> list = node.arguments[argument].constant.toIntVector();
  if (list.empty()) return two(node, 1);
  return {list.front(), list.back()};
}

/// Max pooling whose indices are unused: ATen computes them anyway, which is most of its cost.
bool max_pool(Node& node, const Program& program, const Uses& uses) {
  const Value& x = operand(node, program);
  if (uses[node.results[1].values[0]] > 0 || !takes("wide::max_pool", x) || x.sizes.size() != 4)
    return false;
  become(node, "wide::max_pool",
         {node.arguments[0], Argument::of(two(node, 1)), Argument::of(two(node, 2)),
          Argument::of(two(node, 3)), Argument::of(two(node, 4)), node.arguments[5]});
  return true;
}

/// Average pooling that always divides by the window's size.
bool average_pool(Node& node, const Program& program, const Uses&) {
  const Value& x = operand(node, program);
  const IValue &ceil = node.arguments[4].constant, &padded = node.arguments[5].constant,
               &divisor = node.arguments[6].constant;
  const std::vector<int64_t> padding = two(node, 3);
  if (!takes("wide::average_pool", x) || x.sizes.size() != 4 || ceil.toBool() ||
      !divisor.isNone() || (!padded.toBool() && padding != std::vector<int64_t>{0, 0}))
    return false;
  become(node, "wide::average_pool",
         {node.arguments[0], Argument::of(two(node, 1)), Argument::of(two(node, 2)),
          Argument::of(padding)});
  return true;
}

/// Softmax along contiguous rows.
bool softmax(Node& node, const Program& program, bool log) {
  const Value &x = operand(node, program), &y = program.value(node.results[0].values[0]);
  const auto last = static_cast<int64_t>(x.sizes.size()) - 1;
  const int64_t dim = node.arguments[1].constant.toInt();
  if (last < 0 || (dim != last && dim != -1) || !takes("wide::softmax", x) ||
      !takes("wide::softmax", y) || !x.contiguous() || !y.contiguous())
    return false;
  become(node, "wide::softmax", {node.arguments[0], Argument::of(log)});
  return true;
}

/// A reduction over the last dimensions of a contiguous tensor.
bool reduction(Node& node, const Program& program, const char* kind) {
  const Value &x = operand(node, program), &y = program.value(node.results[0].values[0]);
  const auto rank = static_cast<int64_t>(x.sizes.size());
  if (!takes("wide::reduce_rows", x) || !x.contiguous() || !y.contiguous() || x.numel() == 0)
    return false;
  for (size_t i = 1; i < node.arguments.size(); ++i)
    if (node.arguments[i].kind != Argument::Kind::constant) return false;
  if (node.arguments.size() > 3 && !node.arguments[3].constant.isNone()) return false;  // a dtype
  const IValue& given = node.arguments[1].constant;
  std::vector<int64_t> dims;
  if (given.isInt()) dims = {given.toInt()};
  if (given.isIntList()) dims = given.toIntVector();
  for (int64_t& dim : dims) dim = dim < 0 ? dim + rank : dim;
  std::ranges::sort(dims);
  const auto count = static_cast<int64_t>(dims.size());
  for (int64_t k = 0; k < count; ++k)
    if (dims[static_cast<size_t>(k)] != rank - count + k) return false;
  if (count == 0) return false;  // all dimensions, models included
  become(node, "wide::reduce_rows",
         {node.arguments[0], Argument::of(kind), Argument::of(count), node.arguments[2]});
  return true;
}

template <const char* kind>
bool reduced(Node& node, const Program& program, const Uses&) {
  return reduction(node, program, kind);
}

constexpr char kSum[] = "sum", kMean[] = "mean", kGreatest[] = "amax", kLogSum[] = "logsumexp",
               kPlace[] = "argmax";

/// `max` with indices becomes `amax` if the indices are unused.
bool greatest(Node& node, const Program& program, const Uses& uses) {
  if (uses[node.results[1].values[0]] > 0) return false;
  return reduction(node, program, kGreatest);
}

/// The gradient of softmax along contiguous rows, from g and y.
bool softmax_backward(Node& node, const Program& program, bool log) {
  const Value &g = operand(node, program), &y = program.value(node.arguments[1].values[0]),
              &made = program.value(node.results[0].values[0]);
  const auto last = static_cast<int64_t>(y.sizes.size()) - 1;
  const int64_t dim = node.arguments[2].constant.toInt();
  for (const Value* v : {&g, &y, &made})
    if (last < 0 || !takes("wide::softmax_backward", *v) || !v->contiguous() || v->sizes != y.sizes)
      return false;
  if (dim != last && dim != -1) return false;
  become(node, "wide::softmax_backward", {node.arguments[0], node.arguments[1], Argument::of(log)});
  return true;
}

using Replace = bool (*)(Node&, const Program&, const Uses&);

const std::map<std::string, Replace>& replacements() {
  static const std::map<std::string, Replace> all{
      {"aten::max_pool2d_with_indices", max_pool},
      {"aten::avg_pool2d", average_pool},
      {"aten::sum.dim_IntList", reduced<kSum>},
      {"aten::mean.dim", reduced<kMean>},
      {"aten::amax", reduced<kGreatest>},
      {"aten::max.dim", greatest},
      {"aten::logsumexp", reduced<kLogSum>},
      {"aten::argmax", reduced<kPlace>},
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

[[maybe_unused]] const bool registered = add_pass(
    {"faster-kernels", "kernels of our own: pools without indices, softmax and sums of rows",
     Stage::program, 95, run});

}  // namespace
}  // namespace wide::faster_kernels_pass
