#include "data/exports/pt2_graph.h"

#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <caffe2/serialize/versions.h>
#include <torch/version.h>

#include <map>
#include <set>

#include "data/exports/pt2_schema.h"
#include "engine/error.h"

namespace wide {
namespace {

using json = nlohmann::ordered_json;

json named(const std::string& name) { return {{"name", name}}; }
json as_tensor(const std::string& name) { return {{"as_tensor", named(name)}}; }

/// An argument of a node. `kind` 1 is given by position, 2 by keyword.
json input(const std::string& name, const json& argument, int kind = 1) {
  return {{"name", name}, {"arg", argument}, {"kind", kind}};
}

class Writer {
 public:
  explicit Writer(const Portable& portable)
      : portable_(portable),
        program_(portable.program),
        uses_(program_.uses()),
        names_(program_.values.size()) {}

  Pt2Model write() {
    for (const std::string& name : portable_.input_names) taken_.insert(name);
    bind(Role::parameter);
    bind(Role::buffer);
    lift_constants();
    bind(Role::input);
    for (size_t i = 0; i < program_.nodes.size(); ++i) add(i);
    json outputs = json::array(), specs = json::array();
    write_outputs(outputs, specs);

    const json graph = {{"inputs", inputs_},
                        {"outputs", outputs},
                        {"nodes", nodes_},
                        {"tensor_values", values_},
                        {"sym_int_values", sizes_},
                        {"sym_bool_values", json::object()},
                        {"is_single_tensor_return", false},
                        {"custom_obj_values", json::object()},
                        {"sym_float_values", json::object()}};
    const json module = {{"graph", graph},
                         {"signature", {{"input_specs", input_specs_}, {"output_specs", specs}}},
                         {"module_call_graph", json::array({{{"fqn", ""}, {"signature", call()}}})},
                         {"metadata", json::object()},
                         {"treespec_namedtuple_fields", json::object()}};
    model_.json = {{"graph_module", module},
                   {"opset_version", {{"aten", caffe2::serialize::kMaxSupportedFileFormatVersion}}},
                   {"range_constraints", ranges()},
                   {"schema_version", {{"major", 8}, {"minor", 17}}},
                   {"verifiers", json::array({"ATEN"})},
                   {"torch_version", TORCH_VERSION},
                   {"guards_code", json::array()}};
    return std::move(model_);
  }

 private:
  const Value& value(ValueId id) const { return program_.value(id); }
  std::string& name(ValueId id) { return names_[id]; }

  /// A new name: `wish`, with a number appended if that is taken.
  std::string fresh(const std::string& wish) {
    std::string name = wish;
    for (int i = 1; !taken_.insert(name).second; ++i) name = fmt::format("{}_{}", wish, i);
    return name;
  }

  void note_value(ValueId id, const std::string& as, bool requires_grad = false) {
    name(id) = as;
    values_[as] = meta(id, requires_grad);
  }

  json meta(ValueId id, bool requires_grad) const {
    return pt2_tensor_meta(value(id), requires_grad,
                           portable_.batch ? portable_.batch->value(id) : nullptr);
  }

  json ranges() const {
    if (!portable_.batch) return json::object();
    const BatchRange& range = portable_.batch->range;
    json limits{{"min_val", range.least}, {"max_val", nullptr}};
    if (range.most) limits["max_val"] = *range.most;
    return {{kBatchSymbol, limits}};
  }

  void bind(Role role) {
    size_t input = 0;
    for (size_t k = 0; k < program_.bound.size(); ++k) {
      const ValueId id = program_.bound[k];
      const Value& v = value(id);
      if (v.role != role) continue;
      if (role == Role::input) {
        note_value(id, portable_.input_names.at(input++));
        input_specs_.push_back({{"user_input", {{"arg", as_tensor(name(id))}}}});
      } else {
        const bool parameter = role == Role::parameter;
        const bool grad = parameter && at::isFloatingType(v.dtype);
        note_value(id, fresh((parameter ? "p_" : "b_") + identifier(v.name)), grad);
        json spec = {{"arg", named(name(id))}};
        spec[parameter ? "parameter_name" : "buffer_name"] = v.name;
        if (!parameter) spec["persistent"] = true;
        input_specs_.push_back({{parameter ? "parameter" : "buffer", spec}});
        model_.weights.push_back({v.name, portable_.bound[k], parameter});
      }
      inputs_.push_back(as_tensor(name(id)));
    }
  }

  void lift_constants() {
    for (ValueId id = 0; id < uses_.size(); ++id) {
      const Value& v = value(id);
      if (v.role != Role::constant || uses_[id] == 0 || is_number(id)) continue;
      const std::string lifted = fmt::format("lifted_tensor_{}", model_.constants.size());
      // A clone, as an expanded constant has no dense memory to write.
      const Tensor dense = at::clone(v.constant);
      name(id) = fresh("c_" + lifted);
      values_[name(id)] = pt2_tensor_meta(describe(dense), false);
      input_specs_.push_back(
          {{"tensor_constant", {{"arg", named(name(id))}, {"tensor_constant_name", lifted}}}});
      inputs_.push_back(as_tensor(name(id)));
      model_.constants.push_back({lifted, dense, false});
    }
  }

  /// Whether a Python number was passed where the operator takes a tensor (a "wrapped number",
  /// which does not promote dtypes as a tensor does). It is written as a number.
  bool is_number(ValueId id) const {
    const Value& v = value(id);
    return v.role == Role::constant && v.constant.unsafeGetTensorImpl()->is_wrapped_number();
  }

  json tensor_json(ValueId id, bool optional) {
    if (id == kNone) return {{"as_none", true}};
    if (!is_number(id)) return as_tensor(name(id));
    if (optional) fail("[.pt2] list: got a number, expected tensors; try --export wide.ts");
    const c10::Scalar number = value(id).constant.item();
    if (number.isBoolean()) return {{"as_bool", number.toBool()}};
    if (number.isIntegral(false)) return {{"as_int", number.toLong()}};
    return {{"as_float", pt2_number(number.toDouble())}};
  }

  /// The name of a number that depends on the batch size; nodes that compute it are inserted before
  /// its first reader. `hint`: its value on the sample.
  std::string number(const BatchFormula& formula, int64_t hint) {
    if (const auto known = numbers_.find(formula); known != numbers_.end()) return known->second;
    const DynamicBatch& batch = *portable_.batch;
    const BatchFormula one{1, 0};
    const int64_t size = value(batch.input).sizes[static_cast<size_t>(batch.dimension)];
    const auto arithmetic = [&](const char* what, const BatchFormula& of, int64_t by) {
      const json inputs =
          json::array({input("a", {{"as_sym_int", named_size(number(of, of.at(size)))}}),
                       input("b", {{"as_int", by}})});
      return put_number(fmt::format("_operator.{}", what), what, inputs, formula, hint);
    };
    if (formula.constant != 0) return arithmetic("add", {formula.slope, 0}, formula.constant);
    if (formula.slope != 1) return arithmetic("mul", one, formula.slope);
    const json inputs = json::array(
        {input("self", as_tensor(name(batch.input))), input("dim", {{"as_int", batch.dimension}})});
    return put_number("torch.ops.aten.sym_size.int", "sym_size_int", inputs, formula, hint);
  }

  std::string put_number(const std::string& target, const std::string& wish, const json& inputs,
                         const BatchFormula& formula, int64_t hint) {
    const std::string as = fresh(wish);
    sizes_[as] = pt2_expression(formula, hint);
    push(target, inputs, json::array({{{"as_sym_int", named_size(as)}}}), as);
    return numbers_[formula] = as;
  }

  static json named_size(const std::string& name) { return {{"as_name", name}}; }

  /// The JSON of an int, or of a list of ints, that depends on the batch size.
  json symbolic_json(const IValue& constant, const std::vector<BatchFormula>& formulas) {
    const auto one = [&](const BatchFormula& f, int64_t hint) {
      return f.slope == 0 ? json{{"as_int", hint}} : named_size(number(f, hint));
    };
    if (constant.isInt()) return {{"as_sym_int", one(formulas[0], constant.toInt())}};
    json list = json::array();
    const auto hints = constant.toListRef();
    for (size_t i = 0; i < formulas.size(); ++i) list.push_back(one(formulas[i], hints[i].toInt()));
    return {{"as_sym_ints", list}};
  }

  json argument_json(const c10::Argument& declared, const wide::Argument& a,
                     const std::string& op) {
    json list = json::array();
    switch (a.kind) {
      case wide::Argument::Kind::constant:
        return pt2_constant(declared, a.constant, op);
      case wide::Argument::Kind::value:
        return tensor_json(a.values[0], false);
      case wide::Argument::Kind::list:
        for (const ValueId id : a.values) list.push_back(named(name(id)));
        return {{"as_tensors", list}};
      case wide::Argument::Kind::optional_list:
        for (const ValueId id : a.values) list.push_back(tensor_json(id, true));
        return {{"as_optional_tensors", list}};
    }
    return {};
  }

  void add(size_t index) {
    const Node& node = program_.nodes[index];
    const auto& schema = node.op.schema();
    const std::string base = schema.name().substr(schema.name().find("::") + 2);
    const std::string overload =
        schema.overload_name().empty() ? "default" : schema.overload_name();
    const auto formulas = [&](size_t i) {
      return portable_.batch ? portable_.batch->argument(index, i) : nullptr;
    };
    const auto left_out = [&](size_t i) {
      return !formulas(i) && pt2_is_default(schema.arguments()[i], node.arguments[i]);
    };
    size_t count = node.arguments.size();
    while (count > 0 && left_out(count - 1)) --count;
    json inputs = json::array();
    for (size_t i = 0; i < count; ++i) {
      const c10::Argument& declared = schema.arguments()[i];
      const wide::Argument& a = node.arguments[i];
      if (declared.kwarg_only() && left_out(i)) continue;
      const auto* symbolic = formulas(i);
      inputs.push_back(input(
          declared.name(),
          symbolic ? symbolic_json(a.constant, *symbolic) : argument_json(declared, a, node.name()),
          declared.kwarg_only() ? 2 : 1));
    }
    const bool one = node.results.size() == 1 && node.results[0].kind == Kind::value;
    const std::string node_name = fresh(base);
    json outputs = json::array();
    int unused = 0;
    const auto result = [&](ValueId id) {
      std::string as = node_name;
      if (!one) {
        const bool read = id != kNone && uses_[id] > 0;
        as = read ? fresh("getitem") : fresh(fmt::format("{}_unused_{}", node_name, unused));
        ++unused;
      }
      if (id != kNone)
        note_value(id, as);
      else
        values_[as] = pt2_tensor_meta(describe(at::empty({0})), false);
      return as;
    };
    for (const wide::Argument& r : node.results) {
      if (r.kind == Kind::value) {
        outputs.push_back(as_tensor(result(r.values[0])));
      } else if (r.kind == Kind::list || r.kind == Kind::optional_list) {
        json list = json::array();
        for (const ValueId id : r.values) list.push_back(named(result(id)));
        outputs.push_back({{"as_tensors", list}});
      } else {
        outputs.push_back(as_tensor(result(kNone)));  // an undefined tensor, which nothing reads
      }
    }
    push(fmt::format("torch.ops.aten.{}.{}", base, overload), inputs, outputs, node_name);
  }

  void push(const std::string& target, const json& inputs, const json& outputs,
            const std::string& node_name) {
    nodes_.push_back({{"target", target},
                      {"inputs", inputs},
                      {"outputs", outputs},
                      {"metadata", json::object()},
                      {"is_hop_single_tensor_return", nullptr},
                      {"name", node_name}});
  }

  /// The name for an output. A value that no node computes, or that is an output already, gets a
  /// clone: torch.export tells outputs from mutations by name, and may not return an input itself.
  std::string output_name(ValueId id) {
    if (value(id).role == Role::intermediate && handed_out_.insert(id).second) return name(id);
    const std::string as = fresh("clone");
    values_[as] = meta(id, false);
    push("torch.ops.aten.clone.default", json::array({input("self", as_tensor(name(id)))}),
         json::array({as_tensor(as)}), as);
    return as;
  }

  void write_outputs(json& outputs, json& specs) {
    for (const Update& u : program_.updates) {
      const Value& target = value(u.target);
      const std::string as = output_name(u.value);
      outputs.push_back(as_tensor(as));
      const char* kind = target.role == Role::input       ? "user_input"
                         : target.role == Role::parameter ? "parameter"
                                                          : "buffer";
      json spec = {{"arg", named(as)}};
      spec[fmt::format("{}_name", kind)] =
          target.role == Role::input ? name(u.target) : target.name;
      specs.push_back({{fmt::format("{}_mutation", kind), spec}});
    }
    for (const ValueId id : program_.outputs) {
      const std::string as = output_name(id);
      outputs.push_back(as_tensor(as));
      specs.push_back({{"user_output", {{"arg", as_tensor(as)}}}});
    }
  }

  /// The pytrees of inputs and outputs: the inputs by position; one tensor, or a tuple of them.
  json call() const {
    const json leaf = {{"type", nullptr}, {"context", nullptr}, {"children_spec", json::array()}};
    const auto tuple = [](const json& children) {
      return json{{"type", "builtins.tuple"}, {"context", "null"}, {"children_spec", children}};
    };
    const auto leaves = [&](size_t n) { return json(std::vector<json>(n, leaf)); };
    const json keywords = {
        {"type", "builtins.dict"}, {"context", "[]"}, {"children_spec", json::array()}};
    const json in = tuple(json::array({tuple(leaves(portable_.input_names.size())), keywords}));
    const json out = program_.outputs.size() == 1 ? leaf : tuple(leaves(program_.outputs.size()));
    return {{"inputs", json::array()},
            {"outputs", json::array()},
            {"in_spec", json::array({1, in}).dump()},
            {"out_spec", json::array({1, out}).dump()},
            {"forward_arg_names", portable_.input_names}};
  }

  using Kind = wide::Argument::Kind;
  const Portable& portable_;
  const Program& program_;
  const ByValue<int32_t> uses_;
  ByValue<std::string> names_;
  std::set<std::string> taken_;
  std::set<ValueId> handed_out_;
  json inputs_ = json::array(), input_specs_ = json::array(), nodes_ = json::array();
  json values_ = json::object(), sizes_ = json::object();
  std::map<BatchFormula, std::string> numbers_;  // names of those computed already
  Pt2Model model_;
};

}  // namespace

Pt2Model pt2_model(const Portable& portable) { return Writer(portable).write(); }

}  // namespace wide
