// Chains of pointwise operators: a group of which only the last result is read elsewhere becomes
// one `wide::chain`, which works on blocks in the first-level cache instead of whole tensors.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

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
    auto at = std::find(inputs.begin(), inputs.end(), id);
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

/// "op OPERANDS NUMBERS": operands are the node's first arguments, numbers the next ones.
Write plain(const std::string& op) {
  return [op](const Node& node, Writer& out) {
    const chains::OpRow& row = *chains::find_row(op);
    std::string line = op;
    for (int i = 0; i < row.operands + row.numbers; ++i) {
      const auto k = static_cast<size_t>(i);
      line += " " + (i < row.operands ? out.operand(node.arguments[k])
                                      : out.number(scalar(node, k, out)));
    }
    out.emit(line);
  };
}

/// Writes a op (alpha b), or, `reversed`, b op (alpha a).
Write scaled(const std::string& op, bool reversed = false) {
  return [op, reversed](const Node& node, Writer& out) {
    std::string a = out.operand(node.arguments[0]), b = out.operand(node.arguments[1]);
    if (reversed) std::swap(a, b);
    const double alpha = scalar(node, 2, out);
    if (alpha != 1) b = out.emit(fmt::format("mul {} {}", b, out.number(alpha)));
    out.emit(fmt::format("{} {} {}", op, a, b));
  };
}

/// Writes a + value (b op c).
Write added(const std::string& op) {
  return [op](const Node& node, Writer& out) {
    const std::string a = out.operand(node.arguments[0]), b = out.operand(node.arguments[1]),
                      c = out.operand(node.arguments[2]);
    std::string t = out.emit(fmt::format("{} {} {}", op, b, c));
    const double value = scalar(node, 3, out);
    if (value != 1) t = out.emit(fmt::format("mul {} {}", t, out.number(value)));
    out.emit(fmt::format("add {} {}", a, t));
  };
}

void power(const Node& node, Writer& out) {
  const std::string x = out.operand(node.arguments[0]);
  const double exponent = scalar(node, 1, out);
  static const std::map<double, std::string> single{
      {1, "copy"}, {2, "square"}, {0.5, "sqrt"}, {-0.5, "rsqrt"}, {-1, "reciprocal"}};
  if (const auto it = single.find(exponent); it != single.end()) {
    out.emit(it->second + " " + x);
  } else if (exponent == 3 || exponent == -2 || exponent == 4) {
    const std::string t = out.emit("square " + x);
    out.emit(exponent == 3    ? fmt::format("mul {} {}", t, x)
             : exponent == -2 ? "reciprocal " + t
                              : "square " + t);
  } else {
    out.fits = false;
  }
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

void masked_fill(const Node& node, Writer& out) {
  const std::string x = out.operand(node.arguments[0]), mask = out.operand(node.arguments[1]),
                    value = out.operand(node.arguments[2]);
  out.emit(fmt::format("where {} {} {}", mask, value, x));
}

// Gradients by x of functions of it, given the gradient g of the result: g, then x or the result.

/// Writes g times a function of x.
Write sloped(const std::string& slope) {
  return [slope](const Node& node, Writer& out) {
    const std::string g = out.operand(node.arguments[0]);
    const std::string x = out.operand(node.arguments[1]);
    out.emit(fmt::format("mul {} {}", g, out.emit(slope + " " + x)));
  };
}

void gelu_backward(const Node& node, Writer& out) {
  const IValue& how = node.arguments[2].constant;
  const bool tanh = how.isString() && how.toStringRef() == "tanh";
  sloped(tanh ? "gelu_tanh_slope" : "gelu_slope")(node, out);
}

/// g, alpha, scale, input scale, whether what follows is the result, x.
void elu_backward(const Node& node, Writer& out) {
  const IValue& by_result = node.arguments[4].constant;
  if (!by_result.isBool() || by_result.toBool()) out.fits = false;
  const std::string g = out.operand(node.arguments[0]), x = out.operand(node.arguments[5]);
  const double alpha = scalar(node, 1, out), scale = scalar(node, 2, out);
  out.emit(fmt::format("mul {} {}", g,
                       out.emit(fmt::format("elu_slope {} {} {} {}", x, out.number(alpha),
                                            out.number(scale), out.number(scalar(node, 3, out))))));
}

/// Writes g (1 - y²).
void tanh_backward(const Node& node, Writer& out) {
  const std::string g = out.operand(node.arguments[0]), y = out.operand(node.arguments[1]);
  const std::string square = out.emit(fmt::format("mul {} {}", y, y));
  out.emit(fmt::format("mul {} {}", g, out.emit("sub 1 " + square)));
}

/// Writes g (1 - y) y.
void sigmoid_backward(const Node& node, Writer& out) {
  const std::string g = out.operand(node.arguments[0]), y = out.operand(node.arguments[1]);
  const std::string other = out.emit("sub 1 " + y);
  out.emit(fmt::format("mul {} {}", out.emit(fmt::format("mul {} {}", g, other)), y));
}

/// Writes g, or 0 where x is at the limit or below.
void threshold_backward(const Node& node, Writer& out) {
  const std::string g = out.operand(node.arguments[0]), x = out.operand(node.arguments[1]);
  const std::string limit = out.number(scalar(node, 2, out));
  out.emit(fmt::format("where {} 0 {}", out.emit(fmt::format("le {} {}", x, limit)), g));
}

void leaky_relu_backward(const Node& node, Writer& out) {
  const std::string g = out.operand(node.arguments[0]), x = out.operand(node.arguments[1]);
  const std::string less = out.emit(fmt::format("mul {} {}", g, out.number(scalar(node, 2, out))));
  out.emit(fmt::format("where {} {} {}", out.emit(fmt::format("gt {} 0", x)), g, less));
}

/// Writes g where beta x is above the limit, else g sigmoid(beta x).
void softplus_backward(const Node& node, Writer& out) {
  const std::string g = out.operand(node.arguments[0]), x = out.operand(node.arguments[1]);
  const std::string z = out.emit(fmt::format("mul {} {}", x, out.number(scalar(node, 2, out))));
  const std::string above = out.emit(fmt::format("gt {} {}", z, out.number(scalar(node, 3, out))));
  const std::string less = out.emit(fmt::format("mul {} {}", g, out.emit("sigmoid " + z)));
  out.emit(fmt::format("where {} {} {}", above, g, less));
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
      table[std::string("aten::add") + overload] = scaled("add");
      table[std::string("aten::sub") + overload] = scaled("sub");
      table[std::string("aten::rsub") + overload] = scaled("sub", true);
    }
    table["aten::where.self"] = plain("where");
    table["aten::masked_fill.Scalar"] = table["aten::masked_fill.Tensor"] = masked_fill;
    table["aten::addcmul"] = added("mul");
    table["aten::addcdiv"] = added("div");
    table["aten::pow.Tensor_Scalar"] = power;
    table["aten::gelu"] = gelu;
    table["aten::clamp"] = table["aten::hardtanh"] = clamp;
    table["aten::clamp_min"] = plain("maximum");
    table["aten::clamp_max"] = plain("minimum");
    table["aten::_to_copy"] = cast;
    table["aten::gelu_backward"] = gelu_backward;
    table["aten::silu_backward"] = sloped("silu_slope");
    table["aten::elu_backward"] = elu_backward;
    table["aten::tanh_backward"] = tanh_backward;
    table["aten::sigmoid_backward"] = sigmoid_backward;
    table["aten::threshold_backward"] = threshold_backward;
    table["aten::leaky_relu_backward"] = leaky_relu_backward;
    table["aten::softplus_backward"] = softplus_backward;
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
    for (const ValueId id : results_of(program)) result_[id] = true;
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
    std::sort(group.begin(), group.end());
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
    const auto inside = [&](size_t i) {
      return std::find(group.begin(), group.end(), i) != group.end();
    };
    for (bool grown = true; grown;) {
      grown = false;
      for (const ValueId id : write(group).inputs) {
        const int32_t maker = producer_[id];
        if (maker < 0 || result_[id]) continue;
        const auto i = static_cast<size_t>(maker);
        if (taken_[i] || !pointwise(i) || result_of(i).sizes != result_of(last).sizes ||
            !std::all_of(readers_[id].begin(), readers_[id].end(), inside) || absorbed_[i])
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
