// Chains of pointwise operators: a group of which only the last result is read elsewhere becomes
// one `wide::chain`, which works on blocks in the first-level cache instead of whole tensors.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "engine/lower/plan/epilogue.h"
#include "engine/passes/pass.h"
#include "engine/widen/capabilities.h"
#include "primitives/kernels/pointwise/chain_code.h"

namespace wide::chain_pass {
namespace {

/// Builds the text of a chain and the list of its inputs.
struct Writer {
  const Program& program;
  std::vector<ValueId> inputs;
  std::map<ValueId, std::string> made;  // results of instructions so far
  std::vector<std::string> lines;
  bool fits = true;  // all of it can be expressed as a chain

  std::string emit(const std::string& line) {
    lines.push_back(line);
    return fmt::format("t{}", lines.size() - 1);
  }
  std::string number(double value) {
    if (std::isnan(value)) fits = false;
    return fmt::format("{}", value);
  }
  std::string operand(const Argument& argument) {
    if (argument.kind == Argument::Kind::constant) {
      if (argument.constant.isScalar() && !argument.constant.isComplexDouble())
        return number(argument.constant.toScalar().toDouble());
      fits = false;
      return "";
    }
    if (argument.kind != Argument::Kind::value) {
      fits = false;
      return "";
    }
    const ValueId id = argument.values[0];
    if (const auto it = made.find(id); it != made.end()) return it->second;
    const Value& v = program.value(id);
    if (v.role == Role::constant && v.sizes.empty() && v.device.is_cpu() &&
        !c10::isComplexType(v.dtype))
      return number(v.constant.item().toDouble());
    if (!takes("wide::chain", v)) fits = false;
    auto at = std::ranges::find(inputs, id);
    if (at == inputs.end()) at = inputs.insert(at, id);
    return fmt::format("x{}", at - inputs.begin());
  }
};

/// Writes a node's instructions; the last of them computes its result.
using Write = std::function<void(const Node&, Writer&)>;

double scalar(const Node& node, size_t i, Writer& out) {
  const Argument& a = node.arguments[i];
  if (a.kind == Argument::Kind::constant && a.constant.isScalar() && !a.constant.isComplexDouble())
    return a.constant.toScalar().toDouble();
  out.fits = false;
  return 0;
}

/// Writes the instructions of a text, in which `$k` is argument k of the node, `#k` the number that
/// is its argument k, and `%k` the result of the text's instruction k. "scale x #k" is "mul x #k",
/// or just x where the number is 1.
Write text(const std::string& instructions) {
  std::vector<std::vector<std::string>> lines;
  std::set<size_t> arguments;
  std::istringstream all(instructions);
  for (std::string line; std::getline(all, line, ';');) {
    std::istringstream words(line);
    lines.emplace_back(std::istream_iterator<std::string>(words),
                       std::istream_iterator<std::string>());
    for (const std::string& word : lines.back())
      if (word[0] == '$') arguments.insert(std::stoul(word.substr(1)));
  }
  return [lines, arguments](const Node& node, Writer& out) {
    std::map<size_t, std::string> operands;  // inputs are numbered in the order of the arguments
    for (const size_t k : arguments) operands[k] = out.operand(node.arguments[k]);
    std::vector<std::string> made;
    for (std::vector<std::string> line : lines) {
      for (std::string& word : line) {
        if (word[0] == '$')
          word = operands.at(std::stoul(word.substr(1)));
        else if (word[0] == '#')
          word = out.number(scalar(node, std::stoul(word.substr(1)), out));
        else if (word[0] == '%')
          word = made.at(std::stoul(word.substr(1)));
      }
      const bool scale = line[0] == "scale";
      if (scale) line[0] = "mul";
      made.push_back(scale && line[2] == "1" ? line[1]
                                             : out.emit(fmt::format("{}", fmt::join(line, " "))));
    }
  };
}

/// An instruction: operands are the node's first arguments, numbers the next ones.
Write plain(const std::string& op) {
  const chains::OpRow& row = *chains::find_row(op);
  std::string line = op;
  for (int i = 0; i < row.operands + row.numbers; ++i)
    line += fmt::format(" {}{}", i < row.operands ? '$' : '#', i);
  return text(line);
}

void power(const Node& node, Writer& out) {
  static const std::map<double, Write> by_exponent{{1, text("copy $0")},
                                                   {2, text("square $0")},
                                                   {3, text("square $0; mul %0 $0")},
                                                   {4, text("square $0; square %0")},
                                                   {0.5, text("sqrt $0")},
                                                   {-0.5, text("rsqrt $0")},
                                                   {-1, text("reciprocal $0")},
                                                   {-2, text("square $0; reciprocal %0")}};
  const double exponent = scalar(node, 1, out);
  const auto it = by_exponent.find(exponent);
  if (it == by_exponent.end() || std::isnan(exponent))
    out.fits = false;
  else
    it->second(node, out);
}

void gelu(const Node& node, Writer& out) {
  const IValue& how = node.arguments[1].constant;
  out.emit((how.isString() && how.toStringRef() == "tanh" ? "gelu_tanh " : "gelu ") +
           out.operand(node.arguments[0]));
}

/// Writes a clamp; either limit may be None.
void clamp(const Node& node, Writer& out) {
  auto limit = [&](size_t i, double none) {
    if (i < node.arguments.size() && node.arguments[i].kind == Argument::Kind::constant &&
        node.arguments[i].constant.isNone())
      return none;
    return scalar(node, i, out);
  };
  out.emit(fmt::format("clamp {} {} {}", out.operand(node.arguments[0]),
                       out.number(limit(1, -INFINITY)), out.number(limit(2, INFINITY))));
}

/// Writes a cast between float32 and bool, or a copy of the same dtype to another layout.
void cast(const Node& node, Writer& out) {
  const std::string x = out.operand(node.arguments[0]);
  const Value& to = out.program.value(node.results[0].values[0]);
  const Argument& from = node.arguments[0];
  const bool truth =
      from.kind == Argument::Kind::value && out.program.value(from.values[0]).dtype == at::kBool;
  out.emit(to.dtype == at::kBool ? fmt::format("ne {} 0", x) : "copy " + x);
  if (truth == (to.dtype == at::kBool)) out.fits = false;  // ATen's copy is as fast
}

void gelu_backward(const Node& node, Writer& out) {
  const IValue& how = node.arguments[2].constant;
  const bool tanh = how.isString() && how.toStringRef() == "tanh";
  static const Write by_tanh = text("gelu_tanh_slope $1; mul $0 %0"),
                     by_erf = text("gelu_slope $1; mul $0 %0");
  (tanh ? by_tanh : by_erf)(node, out);
}

/// g, alpha, scale, input scale, whether what follows is the result, x.
void elu_backward(const Node& node, Writer& out) {
  const IValue& by_result = node.arguments[4].constant;
  if (!by_result.isBool() || by_result.toBool()) out.fits = false;
  static const Write slope = text("elu_slope $5 #1 #2 #3; mul $0 %0");
  slope(node, out);
}

const std::map<std::string, Write>& writes() {
  static const auto all = [] {
    std::map<std::string, Write> table;
    for (const char* name :
         {"neg",       "abs",         "sqrt",        "rsqrt",      "reciprocal", "exp",
          "expm1",     "log",         "log1p",       "tanh",       "sigmoid",    "silu",
          "relu",      "erf",         "mish",        "sin",        "cos",        "floor",
          "ceil",      "trunc",       "round",       "sign",       "sgn",        "hardsigmoid",
          "hardswish", "logical_not", "elu",         "leaky_relu", "softplus",   "threshold",
          "maximum",   "minimum",     "logical_and", "logical_or"}) {
      const std::string op = name == std::string("sgn") ? "sign" : name;
      table[std::string("aten::") + name] = plain(op);
    }
    table["aten::bitwise_not"] = plain("logical_not");
    table["aten::bitwise_and.Tensor"] = plain("logical_and");
    table["aten::bitwise_or.Tensor"] = plain("logical_or");
    for (const char* name : {"mul", "div", "eq", "ne", "lt", "le", "gt", "ge"})
      for (const char* overload : {".Tensor", ".Scalar"})
        table[std::string("aten::") + name + overload] = plain(name);
    for (const char* overload : {".Tensor", ".Scalar"}) {
      table[std::string("aten::add") + overload] = text("scale $1 #2; add $0 %0");
      table[std::string("aten::sub") + overload] = text("scale $1 #2; sub $0 %0");
      table[std::string("aten::rsub") + overload] = text("scale $0 #2; sub $1 %0");
    }
    table["aten::where.self"] = plain("where");
    table["aten::masked_fill.Scalar"] = table["aten::masked_fill.Tensor"] = text("where $1 $2 $0");
    table["aten::addcmul"] = text("mul $1 $2; scale %0 #3; add $0 %1");
    table["aten::addcdiv"] = text("div $1 $2; scale %0 #3; add $0 %1");
    table["aten::pow.Tensor_Scalar"] = power;
    table["aten::gelu"] = gelu;
    table["aten::clamp"] = table["aten::hardtanh"] = clamp;
    table["aten::clamp_min"] = plain("maximum");
    table["aten::clamp_max"] = plain("minimum");
    table["aten::_to_copy"] = cast;
    // Gradients by x, given the gradient g of the result: g, then x or the result.
    table["aten::gelu_backward"] = gelu_backward;
    table["aten::silu_backward"] = text("silu_slope $1; mul $0 %0");
    table["aten::elu_backward"] = elu_backward;
    table["aten::tanh_backward"] = text("mul $1 $1; sub 1 %0; mul $0 %1");
    table["aten::sigmoid_backward"] = text("sub 1 $1; mul $0 %0; mul %1 $1");
    table["aten::threshold_backward"] = text("le $1 #2; where %0 0 $0");
    table["aten::leaky_relu_backward"] = text("mul $0 #2; gt $1 0; where %1 $0 %0");
    table["aten::softplus_backward"] =
        text("mul $1 #2; gt %0 #3; sigmoid %0; mul $0 %2; where %1 $0 %3");
    return table;
  }();
  return all;
}

/// Whether a chain of one operator is faster than ATen: if ATen's is not vectorised, or calling it
/// takes longer than its work.
bool pays_alone(const std::string& line, int64_t elements) {
  static const std::set<std::string> slow{
      "exp",       "expm1", "log",  "log1p",     "tanh",    "sigmoid",
      "silu",      "erf",   "gelu", "gelu_tanh", "mish",    "hardsigmoid",
      "hardswish", "sin",   "cos",  "elu",       "softplus"};
  constexpr int64_t kFew = 4096;
  return elements <= kFew || slow.count(line.substr(0, line.find(' '))) > 0;
}

class Chains {
 public:
  explicit Chains(Program& program)
      : program_(program),
        readers_(program.values.size()),
        result_(program.values.size(), false),
        producer_(program.producers()),
        taken_(program.nodes.size(), false),
        absorbed_(program.nodes.size(), false) {
    for (size_t i = 0; i < program.nodes.size(); ++i) {
      if (program.nodes[i].phase == Phase::main) main_.push_back(i);
      for_each_value(program.nodes[i].arguments, [&](ValueId id) { readers_[id].push_back(i); });
    }
    for (const ValueId id : program.results()) result_[id] = true;
  }

  std::string run() {
    find_absorbed(Uses(program_, main_));
    int64_t chains = 0, before = 0;
    std::vector<bool> keep(program_.nodes.size(), true);
    for (size_t p = main_.size(); p-- > 0;) {
      const size_t last = main_[p];
      if (taken_[last] || !pointwise(last) || absorbed_[last]) continue;
      const std::vector<size_t> group = grow(last);
      Writer text = write(group);
      if (text.lines.size() == 1 && !pays_alone(text.lines[0], result_of(last).numel())) continue;
      for (const size_t i : group) {
        taken_[i] = true;
        keep[i] = i == last;
      }
      replace(last, text);
      ++chains;
      before += static_cast<int64_t>(group.size());
    }
    if (chains > 0) program_.keep_nodes(keep);
    return fmt::format("{} operators in {} chains", before, chains);
  }

 private:
  const Value& result_of(size_t node) const {
    return program_.value(program_.nodes[node].results[0].values[0]);
  }

  /// Whether the node can be expressed in a chain.
  bool pointwise(size_t i) const {
    const Node& node = program_.nodes[i];
    if (node.phase != Phase::main || node.results.size() != 1 ||
        node.results[0].kind != Argument::Kind::value || !writes().count(node.name()))
      return false;
    const Value& made = result_of(i);
    if (!takes("wide::chain", made)) return false;
    Writer alone = write({i});
    if (!alone.fits || alone.inputs.empty()) return false;
    const std::string& line = alone.lines.back();
    const bool boolean = chains::find_row(line.substr(0, line.find(' ')))->boolean;
    return made.dtype == (boolean ? at::kBool : at::kFloat);
  }

  /// Marks nodes that the operator before them computes in its epilogue.
  void find_absorbed(const Uses& uses) {
    for (size_t p = 0; p < main_.size(); ++p) {
      for (const size_t reader : epilogue_of(program_, main_, uses, p).readers())
        absorbed_[main_[reader]] = true;
    }
  }

  Writer write(std::vector<size_t> group) const {
    std::ranges::sort(group);
    Writer out{program_, {}, {}, {}, true};
    for (const size_t i : group) {
      writes().at(program_.nodes[i].name())(program_.nodes[i], out);
      out.made[program_.nodes[i].results[0].values[0]] = fmt::format("t{}", out.lines.size() - 1);
    }
    return out;
  }

  static std::string joined(const Writer& text) {
    return fmt::format("{}", fmt::join(text.lines, "; "));
  }

  static bool small_enough(const Writer& text) {
    constexpr size_t kLines = 24;
    return text.inputs.size() <= chains::kMostInputs && text.lines.size() <= kLines &&
           chains::parse(joined(text), text.inputs.size()).slots <= chains::kMostSlots;
  }

  /// The node and, repeatedly, nodes whose result only this group reads.
  std::vector<size_t> grow(size_t last) const {
    std::vector<size_t> group{last};
    const auto inside = [&](size_t i) { return std::ranges::find(group, i) != group.end(); };
    for (bool grown = true; grown;) {
      grown = false;
      for (const ValueId id : write(group).inputs) {
        const int32_t maker = producer_[id];
        if (maker < 0 || result_[id]) continue;
        const auto i = static_cast<size_t>(maker);
        if (taken_[i] || !pointwise(i) || result_of(i).sizes != result_of(last).sizes ||
            !std::ranges::all_of(readers_[id], inside) || absorbed_[i])
          continue;
        group.push_back(i);
        if (small_enough(write(group))) {
          grown = true;
          break;
        }
        group.pop_back();
      }
    }
    return group;
  }

  void replace(size_t i, const Writer& text) {
    Node& node = program_.nodes[i];
    node.op = c10::Dispatcher::singleton().findSchemaOrThrow("wide::chain", "");
    node.arguments = {Argument{Argument::Kind::list, {}, text.inputs}, Argument::of(joined(text)),
                      Argument::of(result_of(i).strides)};
  }

  Program& program_;
  std::vector<size_t> main_;  // node indices
  ByValue<std::vector<size_t>> readers_;
  ByValue<bool> result_;
  const ByValue<int32_t> producer_;
  std::vector<bool> taken_;
  std::vector<bool> absorbed_;
};

[[maybe_unused]] const bool registered =
    add_pass({"chains", "makes one operator over blocks in cache of chains of pointwise ones",
              Stage::program, 110, [](Program& program) { return Chains(program).run(); }});

}  // namespace
}  // namespace wide::chain_pass
