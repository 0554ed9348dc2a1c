#include "data/networks/pt2/call_list_builder.h"

#include <algorithm>

#include "data/bytes/refuse.h"
#include "data/networks/allowed_operators.h"
#include "data/networks/pt2/enumerations.h"
#include "data/networks/pt2/numbers.h"
#include "data/networks/pt2/out_variant.h"

namespace wide::pt2 {
namespace {

using K = Argument::Kind;
using Names = std::map<std::string, int>;

constexpr const char* kOps = "torch.ops.";
constexpr const char* kHigher = "torch.ops.higher_order.";

bool starts(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

/// Whether a higher-order operator only calls its sub-graph, which is inlined.
bool is_plain_wrapper(const std::string& name) {
  static const std::set<std::string> names = {
      "wrap",          "tag_activation_checkpoint",  "strict_mode",    "hints_wrapper",
      "inner_compile", "wrap_activation_checkpoint", "invoke_subgraph"};
  return names.count(name) > 0;
}

/// Whether the operator is an assertion about its arguments without a used result: it is skipped.
bool only_states(const std::string& name) {
  return name == "aten::_assert_tensor_metadata" || name == "aten::_assert_async" ||
         starts(name, "aten::sym_constrain_range");
}

/// Whether a view takes sizes and strides unchecked: as_strided, which checks, replaces it.
bool trusts_its_strides(const std::string& name) {
  return name == "aten::_reshape_alias" || name == "inductor::_reinterpret_tensor";
}

/// Whether an operator may return its argument in eval mode, though its schema declares no alias.
bool may_return_argument(const std::string& name) {
  return name == "aten::dropout" || name == "aten::feature_dropout" ||
         name == "aten::alpha_dropout" || name == "aten::type_as";
}

/// Turns a program's graph, and the graphs in it, into steps.
class Builder {
 public:
  Builder(const Program& program, const Setting& setting, const std::string& file, bool trusted)
      : program_(program), trusted_(trusted) {
    list_.setting = setting;
    list_.file = file;
  }

  CallList build() {
    Names names;
    for (size_t i = 0; i < program_.graph.inputs.size(); ++i) {
      const int r = fresh();
      roots_.back() = {i};
      for (const Item& item : program_.graph.inputs[i].items)
        if (!item.name.empty()) names[item.name] = r;
    }
    inputs_ = list_.register_count;
    nodes(program_.graph, names);
    for (const Argument& output : program_.graph.outputs) {
      const bool tensor = output.kind == K::tensor && !output.list && !output.items[0].name.empty();
      list_.outputs.push_back(tensor ? value(names, output.items[0].name, "the outputs") : -1);
    }
    drop_dead();
    return std::move(list_);
  }

 private:
  int fresh() {
    roots_.emplace_back();
    return static_cast<int>(list_.register_count++);
  }

  [[noreturn]] void refuse_node(const Node& node, const std::string& got,
                                const std::string& expected,
                                const std::string& advice = "export it again") const {
    refuse(list_.file, "operator " + printable(node.target), got, expected, advice);
  }

  int value(const Names& names, const std::string& name, const std::string& reader) const {
    const auto it = names.find(name);
    if (it == names.end())
      refuse(list_.file, "value " + printable(name), "none made before " + printable(reader), "one",
             "export it again");
    return it->second;
  }

  void nodes(const Graph& graph, Names& names) {
    for (const Node& node : graph.nodes) {
      if (starts(node.target, kHigher))
        wrapper(node, node.target.substr(std::string(kHigher).size()), names);
      else if (starts(node.target, kOps))
        operation(node, names);
      else
        python(node, names);
    }
  }

  /// Registers for a node's results, entered in `names`.
  std::vector<std::vector<int>> results(const Node& node, Names& names) {
    std::vector<std::vector<int>> all;
    for (const Argument& output : node.outputs) {
      std::vector<int> group;
      if (output.kind == K::none || output.items.empty()) group.push_back(-1);
      for (const Item& item : output.items) {
        group.push_back(item.name.empty() ? -1 : fresh());
        if (!item.name.empty()) names[item.name] = group.back();
      }
      all.push_back(std::move(group));
    }
    return all;
  }

  void python(const Node& node, Names& names) {
    const std::string function = node.target.substr(node.target.rfind('.') + 1);
    const bool known = starts(node.target, "_operator.") || starts(node.target, "torch.") ||
                       starts(node.target, "math.");
    if (!known || !arity_of_python_number(function))
      refuse_node(node, "a function that is not known", "operators of ATen and Python's on sizes",
                  "export the network without it");
    Step step;
    step.kind = Step::Kind::python;
    step.text = function;
    for (const NamedArgument& input : node.inputs) number(node, input.value, names, step);
    const size_t arity = arity_of_python_number(function);
    if (step.arguments.size() != arity || node.outputs.size() != 1)
      refuse_node(node, fmt::format("{} arguments", step.arguments.size()),
                  fmt::format("{}", arity));
    add_with_result(node, names, std::move(step));
  }

  /// Adds the step of a node that has one result.
  void add_with_result(const Node& node, Names& names, Step step) {
    step.results = results(node, names);
    if (step.results[0].size() != 1 || step.results[0][0] < 0)
      refuse_node(node, "no result", "one");
    add(std::move(step));
  }

  /// Whether an argument is one number, or the name of one.
  static bool is_number(const Argument& a) {
    return !a.list && a.items.size() == 1 && holds_numbers(a);
  }

  /// Appends a constant number, or a filling for a symbolic one.
  void number(const Node& node, const Argument& a, const Names& names, Step& step) {
    if (!is_number(a)) refuse_node(node, "an argument that is no number", "numbers");
    const Item& item = a.items[0];
    if (!item.name.empty()) {
      step.fillings.push_back(
          {.place = step.arguments.size(), .values = {value(names, item.name, node.target)}});
      step.arguments.emplace_back();
    } else {
      step.arguments.push_back(number_value(item, a.kind));
    }
  }

  c10::OperatorHandle find(const Node& node, std::string* name) const {
    // "torch.ops.aten.add.Tensor"
    const std::string path = node.target.substr(std::string(kOps).size());
    const size_t first = path.find('.'), last = path.rfind('.');
    if (first == std::string::npos || first == last)
      refuse_node(node, "a name without overload", "namespace.operator.overload");
    *name = path.substr(0, first) + "::" + path.substr(first + 1, last - first - 1);
    const std::string overload = path.substr(last + 1);
    const auto op =
        c10::Dispatcher::singleton().findSchema({*name, overload == "default" ? "" : overload});
    if (!op)
      refuse_node(node, "one that LibTorch does not have", "its own operators",
                  "export the network without it, or with run_decompositions()");
    if (trusts_its_strides(*name))
      return c10::Dispatcher::singleton().findSchemaOrThrow("aten::as_strided", "");
    if (!trusted_ && !may_call(op->schema()) && !only_states(*name))
      refuse_node(node, "one that files may not call",
                  "operators that compute on the tensors they are given",
                  "export the network without it, or --trust if you know who made the file");
    return *op;
  }

  /// Whether the argument is an `offset_increment` of 0.
  bool adds_no_offset(const NamedArgument& input) const {
    return input.name == "offset_increment" && is_number(input.value) &&
           input.value.items[0].name.empty() && input.value.items[0].integer == 0;
  }

  void operation(const Node& node, Names& names) {
    if (const auto two = without_out(node)) {
      operation(two->first, names);
      return operation(two->second, names);
    }
    std::string name;
    c10::OperatorHandle op = find(node, &name);
    if (only_states(name)) return;
    if (size_of(node, name, names)) return;
    op = for_numbers(node, op);

    Step step;
    step.op = op;
    const c10::FunctionSchema& schema = op.schema();
    size_t used = 0;
    for (const c10::Argument& wanted : schema.arguments()) {
      const NamedArgument* given = nullptr;
      for (const NamedArgument& input : node.inputs)
        if (input.name == wanted.name()) given = &input;
      used += given != nullptr;
      if (given)
        argument(node, given->value, wanted, names, step);
      else if (wanted.default_value())
        step.arguments.push_back(*wanted.default_value());
      else
        refuse_node(node, "no argument " + wanted.name(), "one");
    }
    for (const NamedArgument& input : node.inputs)
      used += trusts_its_strides(name) && adds_no_offset(input);
    if (used != node.inputs.size())
      refuse_node(node, "arguments that it does not have", "those of its schema",
                  "export it again with PyTorch 2.11");
    step.results = results(node, names);
    const size_t returns = schema.returns().size();
    // Older files put all results of an operator into one list.
    if (step.results.size() == 1 && returns > 1 && step.results[0].size() == returns) {
      std::vector<std::vector<int>> spread;
      for (const int r : step.results[0]) spread.push_back({r});
      step.results = spread;
    }
    if (step.results.size() > returns)
      refuse_node(node, fmt::format("{} results", step.results.size()), fmt::format("{}", returns));
    note_aliases(step);
    add(std::move(step));
  }

  /// Makes a step that reads a tensor's size without a call, so that it is not recorded.
  bool size_of(const Node& node, const std::string& name, Names& names) {
    Step step;
    if (name == "aten::sym_size" && node.inputs.size() == 2 && is_number(node.inputs[1].value) &&
        node.inputs[1].value.items[0].name.empty()) {
      step.kind = Step::Kind::size;
      step.detail = node.inputs[1].value.items[0].integer;
    } else if (name == "aten::sym_numel") {
      step.kind = Step::Kind::count;
    } else if (name == "aten::_assert_scalar") {
      return assertion(node, names);
    } else {
      return false;
    }
    const Argument* tensor = node.inputs.empty() ? nullptr : &node.inputs[0].value;
    if (!tensor || tensor->kind != K::tensor || tensor->list || tensor->items.size() != 1 ||
        node.outputs.size() != 1)
      refuse_node(node, "no tensor", "one");
    step.fillings.push_back({.values = {value(names, tensor->items[0].name, node.target)}});
    add_with_result(node, names, std::move(step));
    return true;
  }

  bool assertion(const Node& node, const Names& names) {
    if (node.inputs.empty() || node.inputs[0].value.items.empty() ||
        node.inputs[0].value.items[0].name.empty())
      return true;  // of a constant
    Step step;
    step.kind = Step::Kind::check;
    step.fillings.push_back(
        {.values = {value(names, node.inputs[0].value.items[0].name, node.target)}});
    if (node.inputs.size() > 1) step.text = node.inputs[1].value.text;
    add(std::move(step));
    return true;
  }

  /// Calls `mul.Scalar` where `mul.Tensor` has a number in the place of a tensor.
  c10::OperatorHandle for_numbers(const Node& node, const c10::OperatorHandle& op) const {
    const auto& arguments = op.schema().arguments();
    std::string of_number;
    for (const c10::Argument& wanted : arguments)
      for (const NamedArgument& input : node.inputs)
        if (input.name == wanted.name() && wanted.type()->kind() == c10::TypeKind::TensorType &&
            holds_numbers(input.value))
          of_number = wanted.name();
    if (of_number.empty()) return op;
    c10::OperatorName name = op.operator_name();
    const size_t at = name.overload_name.find("Tensor");
    if (at == std::string::npos) return op;
    name.overload_name.replace(at, 6, "Scalar");
    const auto other = c10::Dispatcher::singleton().findSchema(name);
    if (!other) return op;
    const auto& replaced = other->schema().arguments();
    if (replaced.size() != arguments.size()) return op;
    for (size_t i = 0; i < replaced.size(); ++i) {
      const auto wanted = arguments[i].name() == of_number ? c10::TypeKind::NumberType
                                                           : arguments[i].type()->kind();
      if (replaced[i].name() != arguments[i].name() || replaced[i].type()->kind() != wanted)
        return op;
    }
    return *other;
  }

  void argument(const Node& node, const Argument& a, const c10::Argument& wanted,
                const Names& names, Step& step) {
    const auto misfit = [&] {
      refuse_node(node, "an argument " + wanted.name() + " that does not fit",
                  wanted.type()->str());
    };
    c10::TypePtr type = wanted.type();
    if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    Filling f;
    f.place = step.arguments.size();
    const bool named =
        std::any_of(a.items.begin(), a.items.end(), [](const Item& i) { return !i.name.empty(); });
    if (a.kind == K::tensor) {
      for (const Item& item : a.items)
        f.values.push_back(item.name.empty() ? -1 : value(names, item.name, node.target));
      const auto list = type->cast<c10::ListType>();
      if (!a.list && type->kind() == c10::TypeKind::TensorType) {
        if (f.values[0] < 0) {
          step.arguments.emplace_back();
          return;
        }
      } else if (!list) {
        misfit();
      } else if (list->getElementType()->kind() == c10::TypeKind::TensorType) {
        f.kind = Filling::Kind::tensors;
        if (std::find(f.values.begin(), f.values.end(), -1) != f.values.end()) misfit();
      } else {
        f.kind = Filling::Kind::optional_tensors;
      }
    } else if (named && holds_numbers(a)) {
      for (const Item& item : a.items) {
        f.values.push_back(item.name.empty() ? -1 : value(names, item.name, node.target));
        f.numbers.push_back(item.integer);
      }
      symbolic(type, wanted, f, misfit);
    } else {
      // The type of an empty list's elements is not stored: any will do.
      Argument plain = a;
      if (a.list && a.items.empty()) plain.kind = K::integer;
      const auto fixed = type->kind() == c10::TypeKind::TensorType
                             ? tensor_of(plain)
                             : constant(plain, wanted.type(), wanted.N(), list_.setting);
      if (!fixed) misfit();
      step.arguments.push_back(*fixed);
      return;
    }
    step.arguments.emplace_back();
    step.fillings.push_back(std::move(f));
  }

  /// A number given for a tensor argument as a tensor; None for a missing tensor.
  std::optional<c10::IValue> tensor_of(const Argument& a) const {
    if (a.kind == K::none) return c10::IValue();
    const auto number = constant(a, c10::NumberType::get(), std::nullopt, list_.setting);
    if (!number) return std::nullopt;
    return c10::IValue(number_tensor(*number));
  }

  /// Sets how symbolic numbers fill an argument of this type.
  template <class Misfit>
  void symbolic(const c10::TypePtr& type, const c10::Argument& wanted, Filling& f,
                const Misfit& misfit) const {
    if (type->kind() != c10::TypeKind::ListType && f.values.size() != 1) misfit();
    switch (type->kind()) {
      case c10::TypeKind::TensorType:
        f.kind = Filling::Kind::number_tensor;
        return;
      case c10::TypeKind::FloatType:
        f.kind = Filling::Kind::real;
        return;
      case c10::TypeKind::ListType: {
        const auto element = type->expectRef<c10::ListType>().getElementType()->kind();
        const bool integers =
            element == c10::TypeKind::IntType || element == c10::TypeKind::SymIntType;
        if (!integers && element != c10::TypeKind::FloatType) misfit();
        f.kind = integers ? Filling::Kind::integers : Filling::Kind::reals;
        if (!integers && std::find(f.values.begin(), f.values.end(), -1) != f.values.end())
          misfit();
        if (f.values.size() == 1 && wanted.N()) {
          f.values.resize(static_cast<size_t>(*wanted.N()), f.values[0]);
          f.numbers.resize(f.values.size(), f.numbers[0]);
        }
        return;
      }
      default:
        f.kind = Filling::Kind::value;
    }
  }

  /// Follows views back to the graph's inputs, to know which of those are written to.
  void note_aliases(const Step& step) {
    const c10::FunctionSchema& schema = step.op->schema();
    std::vector<std::set<size_t>> of_argument(schema.arguments().size());
    for (const Filling& f : step.fillings)
      for (const int r : f.values)
        if (r >= 0)
          of_argument[f.place].insert(roots_[static_cast<size_t>(r)].begin(),
                                      roots_[static_cast<size_t>(r)].end());
    for (size_t i = 0; i < of_argument.size(); ++i)
      if (const auto* alias = schema.arguments()[i].alias_info(); alias && alias->isWrite())
        list_.written.insert(of_argument[i].begin(), of_argument[i].end());
    for (size_t k = 0; k < step.results.size(); ++k) {
      const auto* alias = schema.returns()[k].alias_info();
      const bool all = may_return_argument(schema.name());
      for (size_t i = 0; i < of_argument.size(); ++i) {
        const auto* from = schema.arguments()[i].alias_info();
        const bool same = alias && from && shares(*alias, *from);
        if (!same && !all) continue;
        for (const int r : step.results[k])
          if (r >= 0)
            roots_[static_cast<size_t>(r)].insert(of_argument[i].begin(), of_argument[i].end());
      }
    }
  }

  static bool shares(const c10::AliasInfo& a, const c10::AliasInfo& b) {
    if (a.isWildcardBefore() || a.isWildcardAfter()) return true;
    return std::any_of(a.beforeSets().begin(), a.beforeSets().end(),
                       [&](const auto& set) { return b.beforeSets().count(set) > 0; });
  }

  void wrapper(const Node& node, const std::string& name, Names& names) {
    Step mode;
    size_t at = 0;
    if (name == "wrap_with_set_grad_enabled") {
      mode.kind = Step::Kind::grad;
      mode.detail = flag(node, at++);
    } else if (name == "wrap_with_autocast") {
      mode.kind = Step::Kind::autocast;
      autocast(node, &at, mode);
    } else if (!is_plain_wrapper(name)) {
      refuse_node(node, "an operator that chooses or repeats what is computed",
                  "a flat graph of operators",
                  "export the network without it: torch.where instead of a branch, a loop of fixed "
                  "length");
    }
    const Graph* graph = nullptr;
    std::vector<const Argument*> given;
    for (size_t i = at; i < node.inputs.size(); ++i) {
      const Argument& a = node.inputs[i].value;
      if (!graph && a.kind == K::graph)
        graph = a.graph.get();
      else if (graph && node.inputs[i].name.empty() && a.kind != K::text)
        given.push_back(&a);
    }
    if (!graph) refuse_node(node, "no sub-graph", "one");
    if (mode.kind != Step::Kind::call) add(mode);
    inline_graph(node, *graph, given, names);
    if (mode.kind == Step::Kind::call) return;
    mode.kind = Step::Kind::leave;
    add(mode);
  }

  bool flag(const Node& node, size_t i) const {
    if (i >= node.inputs.size() || node.inputs[i].value.kind != K::boolean ||
        !is_number(node.inputs[i].value))
      refuse_node(node, "no true or false", "one");
    return node.inputs[i].value.items[0].integer != 0;
  }

  /// (device_type, dtype, enabled, cache_enabled, graph, ...)
  void autocast(const Node& node, size_t* at, Step& mode) const {
    if (node.inputs.size() < 5 || node.inputs[0].value.kind != K::text)
      refuse_node(node, "other arguments", "device, dtype, enabled, cache_enabled");
    const Argument& dtype = node.inputs[1].value;
    if (dtype.kind == K::dtype && !dtype.items.empty())
      mode.dtype = scalar_type(static_cast<Dtype>(dtype.items[0].integer));
    mode.detail = flag(node, 2);
    mode.device = list_.setting.device.type();
    *at = 4;
  }

  /// Puts a sub-graph's nodes here, its inputs and outputs being values of this graph.
  void inline_graph(const Node& node, const Graph& graph, const std::vector<const Argument*>& given,
                    Names& names) {
    if (++depth_ > 50) refuse_node(node, "more than 50 graphs in one another", "fewer");
    std::vector<Item> items;
    std::vector<K> kinds;
    for (const Argument* a : given)
      for (const Item& item : a->items) items.push_back(item), kinds.push_back(a->kind);
    if (items.size() < graph.inputs.size())
      refuse_node(node, fmt::format("{} arguments", items.size()),
                  fmt::format("{} as its sub-graph has", graph.inputs.size()));
    Names inner;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const Argument& input = graph.inputs[i];
      if (input.items.empty() || input.items[0].name.empty()) continue;
      const int r = register_of(items[i], kinds[i], names, node.target);
      if (r >= 0) inner[input.items[0].name] = r;
    }
    nodes(graph, inner);
    std::vector<int> made;
    for (const Argument& output : graph.outputs) {
      if (output.items.empty()) made.push_back(-1);
      for (const Item& item : output.items)
        made.push_back(register_of(item, output.kind, inner, node.target));
    }
    size_t k = 0;
    for (const Argument& output : node.outputs) {
      if (output.items.empty()) ++k;
      for (const Item& item : output.items) {
        if (k >= made.size()) refuse_node(node, "more results", "those of its sub-graph");
        if (!item.name.empty() && made[k] >= 0) names[item.name] = made[k];
        ++k;
      }
    }
    --depth_;
  }

  /// A value's register; a constant number gets a new one.
  int register_of(const Item& item, K kind, const Names& names, const std::string& reader) {
    if (!item.name.empty()) return value(names, item.name, reader);
    if (kind == K::tensor) return -1;
    const int r = fresh();
    kept_.insert(r);
    list_.constants.emplace_back(r, number_value(item, kind));
    return r;
  }

  void add(Step step) { list_.steps.push_back(std::move(step)); }

  /// Marks where registers are cleared: after the last step that reads them, or, if none does,
  /// after the one that writes them.
  void drop_dead() {
    std::set<int> read(list_.outputs.begin(), list_.outputs.end());
    const auto keeps = [&](int r) {
      return r < 0 || static_cast<size_t>(r) < inputs_ || kept_.count(r) > 0;
    };
    for (auto step = list_.steps.rbegin(); step != list_.steps.rend(); ++step) {
      std::map<int, int> here;
      for (const Filling& f : step->fillings)
        for (const int r : f.values) ++here[r];
      for (const auto& group : step->results)
        for (const int r : group)
          if (!keeps(r) && read.insert(r).second) step->dead.push_back(r);
      for (Filling& f : step->fillings)
        for (const int r : f.values) {
          if (keeps(r) || !read.insert(r).second) continue;
          if (f.kind == Filling::Kind::value && here[r] == 1)
            f.last = step->kind == Step::Kind::call;
          if (!f.last) step->dead.push_back(r);
        }
    }
  }

  const Program& program_;
  bool trusted_;
  CallList list_;
  std::vector<std::set<size_t>> roots_;  // per register: inputs that it may alias
  std::set<int> kept_;
  size_t inputs_ = 0;
  int depth_ = 0;
};

}  // namespace

CallList list_calls(const Program& program, const Setting& setting, const std::string& file,
                    bool trusted) {
  return Builder(program, setting, file, trusted).build();
}

}  // namespace wide::pt2
