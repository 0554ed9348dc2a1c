#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/export.h>

#include <map>

#include "data/bytes/part_file.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/model/portable.h"

namespace wide::torchscript_export {
namespace {

namespace jit = torch::jit;

/// An attribute for a weight: its module, and its name in it.
struct Slot {
  std::string module;  // "layer1.0", "" for the outermost
  std::string name;
};

Slot slot_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

class Writer {
 public:
  explicit Writer(const Portable& portable)
      : portable_(portable),
        program_(portable.program),
        uses_(program_.uses()),
        unit_(std::make_shared<jit::CompilationUnit>()),
        graph_(std::make_shared<jit::Graph>()),
        of_(program_.values.size(), nullptr) {}

  jit::Module write() {
    place_weights();
    bind();
    if (!portable_.batch) check_sizes();
    for (size_t i = 0; i < program_.nodes.size(); ++i) add(i);
    keep_updates();
    std::vector<jit::Value*> outputs;
    for (const ValueId id : program_.outputs) outputs.push_back(of(id));
    graph_->registerOutput(outputs.size() == 1 ? outputs[0]
                                               : insert(graph_->createTuple(outputs))->output());
    const jit::Module& root = modules_.at("");
    const c10::QualifiedName name(*root.type()->name(), "forward");
    root.type()->addMethod(unit_->create_function(name, graph_));
    return root;
  }

 private:
  const Value& value(ValueId id) const { return program_.value(id); }

  jit::Node* insert(jit::Node* node) { return graph_->insertNode(node); }

  /// The module of a path; makes it and its parents if they do not exist.
  jit::Module& module(const std::string& path) {
    if (const auto known = modules_.find(path); known != modules_.end()) return known->second;
    jit::Module made(c10::QualifiedName("__torch__.Wide"), unit_, true);
    made.register_attribute("training", c10::BoolType::get(), false);
    if (!path.empty()) {
      const Slot slot = slot_of(path);
      module(slot.module).register_module(slot.name, made);
    }
    return modules_.emplace(path, made).first->second;
  }

  void place_weights() {
    module("");
    for (size_t k = 0; k < program_.bound.size(); ++k) {
      const Value& v = value(program_.bound[k]);
      if (v.role == Role::input) continue;
      const Slot slot = slot_of(v.name);
      const bool buffer = v.role != Role::parameter;
      const Tensor own = portable_.bound[k].detach();
      if (!buffer && at::isFloatingType(own.scalar_type())) own.set_requires_grad(true);
      module(slot.module).register_parameter(slot.name, own, buffer);
    }
  }

  /// The module of a path as a value of the graph.
  jit::Value* holder(const std::string& path) {
    if (const auto known = holders_.find(path); known != holders_.end()) return known->second;
    const Slot slot = slot_of(path);
    jit::Value* made = graph_->insertGetAttr(holder(slot.module), slot.name);
    holders_[path] = made;
    return made;
  }

  void bind() {
    jit::Value* self = graph_->addInput("self");
    self->setType(modules_.at("").type());
    holders_[""] = self;
    size_t input = 0;
    for (const ValueId id : program_.bound)
      if (value(id).role == Role::input)
        of_[id] = graph_->addInput(portable_.input_names.at(input++));
    for (const ValueId id : program_.bound) {
      const Value& v = value(id);
      if (v.role == Role::input || uses_[id] == 0) continue;
      const Slot slot = slot_of(v.name);
      of_[id] = graph_->insertGetAttr(holder(slot.module), slot.name);
    }
  }

  /// Raises for inputs of other sizes, as numbers of the program may depend on its sizes.
  void check_sizes() {
    size_t input = 0;
    for (const ValueId id : program_.bound) {
      if (value(id).role != Role::input) continue;
      jit::Node* sizes = insert(graph_->create(c10::aten::size, {of(id)}));
      sizes->output()->setType(c10::ListType::ofInts());
      jit::Value* expected = graph_->insertConstant(value(id).sizes);
      jit::Node* same = insert(graph_->create(c10::aten::eq, {sizes->output(), expected}));
      same->output()->setType(c10::BoolType::get());
      jit::Node* check = insert(graph_->create(c10::prim::If, {same->output()}, 0));
      check->addBlock();
      const jit::WithInsertPoint in_other(check->addBlock());
      const std::string line =
          fmt::format("[input {}] sizes: got others, expected [{}] as exported",
                      portable_.input_names.at(input++), fmt::join(value(id).sizes, ", "));
      insert(graph_->create(c10::prim::RaiseException,
                            {graph_->insertConstant(line), graph_->insertConstant(IValue())}, 0));
    }
  }

  bool is_number(ValueId id) const {
    const Value& v = value(id);
    return v.role == Role::constant && v.constant.unsafeGetTensorImpl()->is_wrapped_number();
  }

  jit::Value* of(ValueId id) {
    jit::Value*& known = of_[id];
    if (!known) known = graph_->insertConstant(value(id).constant);
    return known;
  }

  /// A Python number passed where the operator takes a tensor. It must not promote the result's
  /// dtype: it becomes a number if the operator has an overload for one, else a tensor with the
  /// dtype of its other tensors.
  jit::Value* number(const Node& node, ValueId id) {
    const Tensor& t = value(id).constant;
    const auto& name = node.op.schema().operator_name();
    if (c10::Dispatcher::singleton().findSchema({name.name, "Scalar"})) {
      const c10::Scalar x = t.item();
      if (x.isBoolean()) return graph_->insertConstant(x.toBool());
      if (x.isIntegral(false)) return graph_->insertConstant(x.toLong());
      return graph_->insertConstant(x.toDouble());
    }
    at::ScalarType type = t.scalar_type();
    for_each_value(node.arguments, [&](ValueId other) {
      const at::ScalarType beside = value(other).dtype;
      if (!is_number(other) && at::isFloatingType(beside) == at::isFloatingType(type))
        type = beside;
    });
    return graph_->insertConstant(t.to(type));
  }

  /// A number that is computed from the batch size of the actual input.
  jit::Value* number(const BatchFormula& formula) {
    if (formula.slope == 0) return graph_->insertConstant(formula.constant);
    if (const auto known = numbers_.find(formula); known != numbers_.end()) return known->second;
    const DynamicBatch& batch = *portable_.batch;
    const auto call = [&](c10::Symbol what, jit::Value* of, int64_t by) {
      jit::Node* made = insert(graph_->create(what, {of, graph_->insertConstant(by)}));
      made->output()->setType(c10::IntType::get());
      return made->output();
    };
    jit::Value* made = nullptr;
    if (formula.constant != 0)
      made = call(c10::aten::add, number(BatchFormula{formula.slope, 0}), formula.constant);
    else if (formula.slope != 1)
      made = call(c10::aten::mul, number(BatchFormula{1, 0}), formula.slope);
    else
      made = call(c10::aten::size, of(batch.input), batch.dimension);
    return numbers_[formula] = made;
  }

  jit::Value* argument(const Node& node, size_t index, size_t i) {
    const wide::Argument& a = node.arguments[i];
    std::vector<jit::Value*> list;
    if (const auto* formulas = portable_.batch ? portable_.batch->argument(index, i) : nullptr) {
      for (const BatchFormula& f : *formulas) list.push_back(number(f));
      if (a.constant.isInt()) return list[0];
      return insert(graph_->createList(c10::IntType::get(), list))->output();
    }
    switch (a.kind) {
      case wide::Argument::Kind::constant: {
        const bool none = a.constant.isTensor() && !a.constant.toTensor().defined();
        const std::optional<jit::Value*> made =
            jit::tryInsertConstant(*graph_, none ? IValue() : a.constant);
        if (!made)
          fail(
              "[{}] argument {}: got a {}, expected a number, string, list or device; try "
              "--export wide.pt2",
              node.name(), node.op.schema().arguments()[i].name(), a.constant.tagKind());
        return *made;
      }
      case wide::Argument::Kind::value:
        return is_number(a.values[0]) ? number(node, a.values[0]) : of(a.values[0]);
      case wide::Argument::Kind::list:
        for (const ValueId id : a.values) list.push_back(of(id));
        return insert(graph_->createList(c10::TensorType::get(), list))->output();
      case wide::Argument::Kind::optional_list:
        for (const ValueId id : a.values)
          list.push_back(id == kNone ? graph_->insertConstant(IValue()) : of(id));
        return insert(graph_->createList(c10::OptionalType::ofTensor(), list))->output();
    }
    return nullptr;
  }

  void add(size_t index) {
    const Node& node = program_.nodes[index];
    std::vector<jit::Value*> arguments;
    for (size_t i = 0; i < node.arguments.size(); ++i)
      arguments.push_back(argument(node, index, i));
    const auto& schema = node.op.schema();
    jit::Node* made = insert(
        graph_->create(c10::Symbol::fromQualString(schema.name()), arguments, node.results.size()));
    for (size_t r = 0; r < node.results.size(); ++r) {
      jit::Value* out = made->outputs()[r];
      out->setType(schema.returns()[r].type());
      const wide::Argument& result = node.results[r];
      if (result.kind == wide::Argument::Kind::value) {
        of_[result.values[0]] = out;
      } else if (result.kind != wide::Argument::Kind::constant) {
        jit::Node* parts = insert(graph_->createListUnpack(out, result.values.size()));
        for (size_t k = 0; k < result.values.size(); ++k)
          if (result.values[k] != kNone) of_[result.values[k]] = parts->outputs()[k];
      }
    }
  }

  /// Writes a call's updates: a weight's attribute gets a new tensor, so that earlier results stay
  /// unchanged; an input is written in place.
  void keep_updates() {
    for (const Update& u : program_.updates) {
      const Value& target = value(u.target);
      if (target.role == Role::input) {
        insert(graph_->create(c10::aten::copy_,
                              {of(u.target), of(u.value), graph_->insertConstant(false)}));
        continue;
      }
      jit::Node* made = insert(graph_->create(c10::aten::detach, {of(u.value)}));
      const Slot slot = slot_of(target.name);
      insert(graph_->createSetAttr(holder(slot.module), slot.name, made->output()));
    }
  }

  const Portable& portable_;
  const Program& program_;
  const ByValue<int32_t> uses_;
  std::shared_ptr<jit::CompilationUnit> unit_;
  std::shared_ptr<jit::Graph> graph_;
  std::map<std::string, jit::Module> modules_;
  std::map<std::string, jit::Value*> holders_;
  ByValue<jit::Value*> of_;  // by value of the program
  std::map<BatchFormula, jit::Value*> numbers_;
};

void write(const Portable& portable, const std::string& path) {
  const jit::Module module = Writer(portable).write();
  PartFile file(path);
  jit::ExportModule(module, [&file](const void* data, size_t size) {
    file.write(data, size);
    return size;
  });
  file.commit();
}

[[maybe_unused]] const bool registered = add_export_format({"TorchScript", ".ts", write});

}  // namespace
}  // namespace wide::torchscript_export
