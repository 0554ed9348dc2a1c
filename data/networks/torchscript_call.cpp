#include "data/networks/torchscript_call.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <set>

#include "data/text.h"
#include "engine/error.h"

namespace wide {

struct ForwardCall::Part {
  enum class Kind { tensor, constant, tuple, list, dict };
  Kind kind = Kind::constant;
  size_t index = 0;               // index of a tensor among the arguments given
  IValue constant;                // a default, or None
  c10::TypePtr type;              // type of the elements, for lists and dicts
  std::vector<std::string> keys;  // for dicts
  std::vector<std::unique_ptr<Part>> parts;
};

namespace {

using Part = ForwardCall::Part;
using PartPtr = std::unique_ptr<Part>;

class PartBuilder {
 public:
  PartBuilder(const std::vector<std::string>& names, std::string file)
      : names_(names), file_(std::move(file)), used_(names.size(), false) {}

  /// The argument, or part of one, `name`; nullptr if no tensor was given for it.
  PartPtr build(const c10::TypePtr& type, const std::string& name) {
    switch (type->kind()) {
      case c10::TypeKind::TensorType:
        return tensor(name);
      case c10::TypeKind::OptionalType: {
        if (PartPtr inner = build(type->expectRef<c10::OptionalType>().getElementType(), name))
          return inner;
        return nullptr;
      }
      case c10::TypeKind::TupleType:
        return tuple(type->expectRef<c10::TupleType>(), name);
      case c10::TypeKind::ListType:
        return list(type->expectRef<c10::ListType>().getElementType(), name);
      case c10::TypeKind::DictType:
        return dict(type->expectRef<c10::DictType>(), name);
      default:
        return nullptr;
    }
  }

  const std::vector<bool>& used() const { return used_; }

 private:
  PartPtr tensor(const std::string& name) {
    for (size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == name) {
        used_[i] = true;
        auto part = std::make_unique<Part>();
        part->kind = Part::Kind::tensor;
        part->index = i;
        return part;
      }
    return nullptr;
  }

  PartPtr tuple(const c10::TupleType& type, const std::string& name) {
    auto part = std::make_unique<Part>();
    part->kind = Part::Kind::tuple;
    const auto fields = type.schema() ? type.schema()->arguments() : std::vector<c10::Argument>{};
    bool any = false;
    std::string missing;
    for (size_t i = 0; i < type.elements().size(); ++i) {
      PartPtr element = build(type.elements()[i], fmt::format("{}.{}", name, i));
      if (!element && i < fields.size())
        element = build(type.elements()[i], name + "." + fields[i].name());
      any = any || element;
      if (!element && type.elements()[i]->kind() == c10::TypeKind::OptionalType)
        element = std::make_unique<Part>();
      if (!element && missing.empty()) missing = fmt::format("{}.{}", name, i);
      part->parts.push_back(std::move(element));
    }
    if (!any) return nullptr;
    if (!missing.empty())
      fail("[{}] inputs: got no {}, expected all {} of {}; try --input {}=...", file_,
           printable(missing), type.elements().size(), printable(name), printable(missing));
    return part;
  }

  PartPtr list(const c10::TypePtr& element, const std::string& name) {
    auto part = std::make_unique<Part>();
    part->kind = Part::Kind::list;
    part->type = element;
    while (PartPtr next = build(element, fmt::format("{}.{}", name, part->parts.size())))
      part->parts.push_back(std::move(next));
    return part->parts.empty() ? nullptr : std::move(part);
  }

  PartPtr dict(const c10::DictType& type, const std::string& name) {
    auto part = std::make_unique<Part>();
    part->kind = Part::Kind::dict;
    part->type = type.getValueType();
    if (type.getKeyType()->kind() != c10::TypeKind::StringType) return nullptr;
    const bool plain = part->type->kind() == c10::TypeKind::TensorType;
    std::set<std::string> keys;
    for (const std::string& n : names_)
      if (!n.compare(0, name.size() + 1, name + ".")) {
        // If nothing is nested in the dict's values, a key itself may contain dots.
        const std::string rest = n.substr(name.size() + 1);
        keys.insert(plain ? rest : rest.substr(0, rest.find('.')));
      }
    for (const std::string& key : keys)
      if (PartPtr value = build(part->type, name + "." + key)) {
        part->keys.push_back(key);
        part->parts.push_back(std::move(value));
      }
    return part->parts.empty() ? nullptr : std::move(part);
  }

  const std::vector<std::string>& names_;
  std::string file_;
  std::vector<bool> used_;
};

IValue build(const Part& part, const Tensors& tensors) {
  switch (part.kind) {
    case Part::Kind::tensor:
      return tensors[part.index];
    case Part::Kind::constant:
      return part.constant;
    case Part::Kind::tuple: {
      std::vector<IValue> elements;
      for (const auto& p : part.parts) elements.push_back(build(*p, tensors));
      return c10::ivalue::Tuple::create(std::move(elements));
    }
    case Part::Kind::list: {
      c10::impl::GenericList elements(part.type);
      for (const auto& p : part.parts) elements.push_back(build(*p, tensors));
      return elements;
    }
    case Part::Kind::dict: {
      c10::impl::GenericDict values(c10::StringType::get(), part.type);
      for (size_t i = 0; i < part.parts.size(); ++i)
        values.insert(part.keys[i], build(*part.parts[i], tensors));
      return values;
    }
  }
  return {};
}

void flatten(const IValue& value, const std::string& file, Tensors* out) {
  // Numbers and text are the same for every model: nothing to compare.
  if (value.isNone() || value.isScalar() || value.isString()) return;
  if (value.isTensor()) {
    if (value.toTensor().defined()) out->push_back(value.toTensor());
  } else if (value.isTuple()) {
    for (const IValue& v : value.toTupleRef().elements()) flatten(v, file, out);
  } else if (value.isList()) {
    for (const IValue& v : value.toListRef()) flatten(v, file, out);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) flatten(entry.value(), file, out);
  } else {
    fail(
        "[{}] output: got {}, expected tensors in tuples, lists or dicts; try to return tensors "
        "only",
        printable(file), value.tagKind());
  }
}

/// Appends the names of the tensors in `value`; false if the graph does not show how it was built.
bool add_names(const torch::jit::Value& value, const std::string& path,
               std::vector<std::string>* names) {
  namespace prim = torch::jit::prim;
  const c10::TypePtr type = value.type();
  if (type->kind() == c10::TypeKind::NoneType) return true;
  if (type->kind() == c10::TypeKind::TensorType) {
    names->push_back(path);
    return true;
  }
  const torch::jit::Node& made = *value.node();
  const auto add = [&](const torch::jit::Value& part, const std::string& name) {
    return add_names(part, path.empty() ? name : path + "." + name, names);
  };
  const auto tuple = type->cast<c10::TupleType>();
  const bool of_parts =
      tuple ? made.kind() == prim::TupleConstruct : made.kind() == prim::ListConstruct;
  if (of_parts) {
    for (size_t i = 0; i < made.inputs().size(); ++i)
      if (!add(*made.input(i), tuple && tuple->schema() ? tuple->schema()->arguments()[i].name()
                                                        : std::to_string(i)))
        return false;
    return value.uses().size() == 1;  // other uses may have changed the list
  }
  if (made.kind() != prim::DictConstruct || value.uses().size() != 1) return false;
  for (size_t i = 0; i + 1 < made.inputs().size(); i += 2) {
    const auto key = torch::jit::toIValue(made.input(i));
    if (!key || !key->isString() || !add(*made.input(i + 1), key->toStringRef())) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> result_names(const torch::jit::Graph& forward) {
  const std::shared_ptr<torch::jit::Graph> graph = const_cast<torch::jit::Graph&>(forward).copy();
  torch::jit::Inline(*graph);
  std::vector<std::string> names;
  const torch::jit::Value& result = *graph->outputs().at(0);
  if (result.type()->kind() == c10::TypeKind::TensorType || !add_names(result, "", &names))
    return {};
  return names;
}

ForwardCall::ForwardCall(const c10::FunctionSchema& schema, const std::vector<std::string>& names,
                         const std::string& path) {
  const std::string file = printable(path);
  PartBuilder builder(names, file);
  std::vector<std::string> missing;
  for (size_t i = 1; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    PartPtr part = builder.build(argument.type(), argument.name());
    if (!part) {
      part = std::make_unique<Part>();
      if (argument.default_value())
        part->constant = *argument.default_value();
      else if (argument.type()->kind() != c10::TypeKind::OptionalType)
        missing.push_back(argument.name());
    }
    parts_.push_back(std::move(part));
  }
  std::vector<std::string> unexpected;
  for (size_t i = 0; i < names.size(); ++i)
    if (!builder.used()[i]) unexpected.push_back(names[i]);
  if (!missing.empty() || !unexpected.empty())
    fail(
        "[{}] inputs: got {}, expected ({}); try --inputs FILE.safetensors with these names or "
        "--input NAME=2x3x64x64:f32",
        file, names.empty() ? "none" : listing(names, 8), wanted_inputs(schema));
}

ForwardCall::~ForwardCall() = default;

Stack ForwardCall::arguments(const Tensors& tensors) const {
  Stack stack;
  stack.reserve(parts_.size() + 1);
  for (const auto& part : parts_) stack.push_back(build(*part, tensors));
  return stack;
}

std::string wanted_inputs(const c10::FunctionSchema& schema) {
  std::string out;
  for (size_t i = 1; i < schema.arguments().size(); ++i) {
    const c10::Argument& a = schema.arguments()[i];
    out += fmt::format("{}{}: {}", i > 1 ? ", " : "", a.name(), a.type()->str());
    if (a.default_value()) out += " = ...";
  }
  return printable(out, 300);
}

Tensors flatten_outputs(const IValue& result, const std::string& file) {
  Tensors out;
  flatten(result, file, &out);
  if (out.empty())
    fail("[{}] output: got {}, expected at least one tensor; try to return one", printable(file),
         result.tagKind());
  return out;
}

}  // namespace wide
