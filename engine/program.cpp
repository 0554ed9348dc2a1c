#include "engine/program.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <map>
#include <set>

#include "engine/error.h"
#include "engine/program/written_over.h"

namespace wide {

namespace {

const char* short_dtype(at::ScalarType type) {
  static const std::map<at::ScalarType, const char*> names{
      {at::kFloat, "f32"}, {at::kDouble, "f64"}, {at::kHalf, "f16"},  {at::kBFloat16, "bf16"},
      {at::kLong, "i64"},  {at::kInt, "i32"},    {at::kShort, "i16"}, {at::kChar, "i8"},
      {at::kByte, "u8"},   {at::kBool, "bool"}};
  const auto found = names.find(type);
  return found == names.end() ? c10::toString(type) : found->second;
}

std::string constant_text(const IValue& v) {
  std::ostringstream out;
  if (v.isTensor()) return v.toTensor().defined() ? "tensor" : "None";
  if (v.isGenerator()) return "generator";
  out << v;
  return out.str();
}

std::string argument_text(const Argument& a) {
  if (a.kind == Argument::Kind::constant) return constant_text(a.constant);
  if (a.kind == Argument::Kind::value) return fmt::format("%{}", a.values[0]);
  std::string out = "[";
  for (size_t i = 0; i < a.values.size(); ++i)
    out += (i ? ", " : "") + (a.values[i] == kNone ? "None" : fmt::format("%{}", a.values[i]));
  return out + "]";
}

std::string operator_text(const c10::OperatorHandle& op) {
  const auto& name = op.schema().operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

std::string origin_text(const Origin& o) {
  std::string out = o.module;
  if (!o.primitive.empty()) out += (out.empty() ? "" : " ") + o.primitive;
  if (!o.strategy.empty())
    out += (o.primitive.empty() ? (out.empty() ? "" : " ") : "/") + o.strategy;
  return out;
}

}  // namespace

const char* to_string(Role role) {
  constexpr const char* kNames[] = {"input", "parameter", "buffer", "constant", "intermediate"};
  return kNames[static_cast<size_t>(role)];
}

int64_t Value::numel() const {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

int64_t Value::bytes() const { return numel() * static_cast<int64_t>(c10::elementSize(dtype)); }

bool Value::contiguous() const {
  if (!strided) return false;
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

bool same_layout(const Value& a, const Value& b) {
  if (!a.strided || !b.strided || a.device != b.device || a.dtype != b.dtype || a.sizes != b.sizes)
    return false;
  for (size_t i = 0; i < a.sizes.size(); ++i)
    if (a.sizes[i] != 1 && a.strides[i] != b.strides[i]) return false;
  return true;
}

std::string Value::shape_text() const {
  return fmt::format("{}[{}]", short_dtype(dtype), fmt::join(sizes, ", "));
}

std::string Node::name() const { return operator_text(op); }
std::string Region::name() const { return op.schema().operator_name().name; }

bool Node::is_view() const {
  if (aliases) return true;
  const auto& schema = op.schema();
  if (schema.returns().empty() || schema.is_mutable()) return false;
  for (const auto& r : schema.returns())
    if (!r.alias_info()) return false;
  return true;
}

bool Node::is_random() const {
  if (!op.hasTag(at::Tag::nondeterministic_seeded)) return false;
  // Attention, and recurrent layers of cuDNN, are tagged as random for their dropout; without
  // dropout they are not.
  const auto given = [&](const char* name) -> const IValue* {
    const auto at = op.schema().argumentIndexWithName(name);
    return at ? &arguments.at(static_cast<size_t>(*at)).constant : nullptr;
  };
  const IValue* p = given("dropout_p");
  if (p == nullptr) p = given("dropout");
  if (p == nullptr) return true;
  if (p->isDouble() && p->toDouble() == 0.0) return false;
  const IValue* train = given("train");
  return train == nullptr || !train->isBool() || train->toBool();
}

size_t Program::bound_at(ValueId id) const {
  return static_cast<size_t>(std::ranges::find(bound, id) - bound.begin());
}

ValueId Program::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size()) - 1;
}

void Program::verify() const {
  ByValue<bool> made(values.size(), false);
  auto check_range = [&](ValueId id, const std::string& where) {
    WIDE_ASSERT(id >= 0 && static_cast<size_t>(id) < values.size(), "value {} out of range in {}",
                id, where);
  };
  for (ValueId id : bound) {
    check_range(id, "bound");
    made[id] = true;
  }
  for (ValueId id = 0; id < made.size(); ++id)
    if (value(id).role == Role::constant) {
      WIDE_ASSERT(value(id).constant.defined(), "constant %{} has no tensor", id);
      made[id] = true;
    }
  for (const Node& node : nodes) {
    for_each_value(node.arguments, [&](ValueId id) {
      check_range(id, node.name());
      WIDE_ASSERT(made[id], "{} reads %{} before it is made", node.name(), id);
    });
    for_each_value(node.results, [&](ValueId id) {
      check_range(id, node.name());
      WIDE_ASSERT(!made[id], "{} makes %{} again", node.name(), id);
      made[id] = true;
    });
  }
  for (ValueId id : outputs) {
    check_range(id, "outputs");
    WIDE_ASSERT(made[id], "output %{} is never made", id);
  }
  for (const Update& u : updates) {
    check_range(u.value, "updates");
    check_range(u.target, "updates");
    WIDE_ASSERT(made[u.value], "update %{} is never made", u.value);
  }
}

std::string Program::text() const {
  std::string out = n > 0 ? fmt::format("program for {} models\n", n) : "program for one model\n";
  auto describe_value = [&](ValueId id) {
    const Value& v = value(id);
    return fmt::format("%{}: {}{}", id, v.wide ? "wide " : "", v.shape_text());
  };
  for (ValueId id : bound) {
    const Value& v = value(id);
    out += fmt::format("  {} {} \"{}\"\n", to_string(v.role), describe_value(id), v.name);
  }
  std::set<ValueId> constants;
  for (const Node& node : nodes)
    for_each_value(node.arguments, [&](ValueId id) {
      if (value(id).role == Role::constant) constants.insert(id);
    });
  for (ValueId id : constants) out += fmt::format("  constant {}\n", describe_value(id));
  Phase phase = Phase::main;
  for (const Node& node : nodes) {
    if (node.phase != phase) {
      phase = node.phase;
      out += phase == Phase::main       ? "  main:\n"
             : phase == Phase::prologue ? "  prologue, once per set of weights:\n"
                                        : "  shared, once for all models:\n";
    }
    std::vector<std::string> results, arguments;
    for_each_value(node.results, [&](ValueId id) { results.push_back(describe_value(id)); });
    for (const Argument& a : node.arguments) arguments.push_back(argument_text(a));
    std::string origin = origin_text(node.origin);
    out += fmt::format("  {} = {}({}){}\n", fmt::join(results, ", "), node.name(),
                       fmt::join(arguments, ", "), origin.empty() ? "" : "  # " + origin);
  }
  for (const Region& r : regions) {
    std::vector<std::string> arguments;
    for (const Argument& a : r.arguments) arguments.push_back(argument_text(a));
    out += fmt::format("  region {}({}) nodes {}..{}\n", r.name(), fmt::join(arguments, ", "),
                       r.begin, r.end);
  }
  for (ValueId id : outputs) out += fmt::format("  return %{}\n", id);
  for (const Update& u : updates)
    out += fmt::format("  update \"{}\" = %{}\n", value(u.target).name, u.value);
  return out;
}

void Program::replace_uses(ValueId from, ValueId to) {
  auto rename = [&](std::vector<Argument>& arguments) {
    for (Argument& a : arguments) std::ranges::replace(a.values, from, to);
  };
  for (Node& node : nodes) rename(node.arguments);
  for (Region& region : regions) rename(region.arguments);
  std::ranges::replace(outputs, from, to);
  for (Update& u : updates)
    if (u.value == from) u.value = to;
}

void Program::keep_nodes(const std::vector<bool>& keep) {
  std::vector<int32_t> moved(nodes.size() + 1, 0);
  for (size_t i = 0; i < nodes.size(); ++i) moved[i + 1] = moved[i] + (keep[i] ? 1 : 0);
  std::vector<Node> kept;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (keep[i]) kept.push_back(std::move(nodes[i]));
  nodes = std::move(kept);
  std::vector<Region> still;
  for (Region& r : regions) {
    r.begin = moved[static_cast<size_t>(r.begin)];
    r.end = moved[static_cast<size_t>(r.end)];
    if (r.begin < r.end) still.push_back(std::move(r));
  }
  regions = std::move(still);
}

int64_t Program::remove_dead_nodes() {
  ByValue<bool> live(values.size(), false);
  const auto need = [&](ValueId id) { live[id] = true; };
  for (const ValueId id : results()) need(id);
  std::vector<bool> keep(nodes.size(), false);
  // A needed composite call needs its arguments, even if its own nodes read a new value instead (a
  // view of a tensor changed in place): the claim of the whole call reads them.
  std::multimap<size_t, const Region*> ending;
  for (const Region& r : regions)
    if (r.end > r.begin) ending.emplace(static_cast<size_t>(r.end - 1), &r);
  int64_t removed = 0;
  for (size_t i = nodes.size(); i-- > 0;) {
    const auto [first, last] = ending.equal_range(i);
    for (auto it = first; it != last; ++it) {
      bool read = false;
      for_each_value(it->second->results, [&](ValueId id) { read |= live[id]; });
      if (read) for_each_value(it->second->arguments, need);
    }
    bool needed = nodes[i].is_random();
    for_each_value(nodes[i].results, [&](ValueId id) { needed |= live[id]; });
    keep[i] = needed;
    if (needed)
      for_each_value(nodes[i].arguments, need);
    else
      ++removed;
  }
  if (removed > 0) keep_nodes(keep);
  return removed;
}

ByValue<int32_t> Program::uses() const {
  ByValue<int32_t> count(values.size(), 0);
  for (const Node& node : nodes) for_each_value(node.arguments, [&](ValueId id) { ++count[id]; });
  for (const ValueId id : results()) ++count[id];
  return count;
}

std::vector<ValueId> Program::results() const {
  std::vector<ValueId> all = outputs;
  for (const Update& u : updates) all.push_back(u.value);
  return all;
}

ByValue<int32_t> Program::producers() const {
  ByValue<int32_t> producer(values.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i)
    for_each_value(nodes[i].results, [&](ValueId id) { producer[id] = static_cast<int32_t>(i); });
  return producer;
}

int64_t Program::peak_bytes() const {
  // A view keeps its base alive and costs nothing itself.
  ByValue<ValueId> root(values.size());
  for (ValueId id = 0; id < root.size(); ++id) root[id] = id;
  ByValue<size_t> last(values.size(), 0);  // by root
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].is_view() && nodes[i].arguments[0].kind == Argument::Kind::value)
      for_each_value(nodes[i].results,
                     [&](ValueId id) { root[id] = root[nodes[i].arguments[0].values[0]]; });
    for_each_value(nodes[i].arguments, [&](ValueId id) { last[root[id]] = i; });
  }
  for (const ValueId id : results()) last[root[id]] = nodes.size();
  int64_t now = 0;
  for (const Value& v : values)
    if (v.role != Role::intermediate) now += v.bytes();
  int64_t peak = now;
  std::vector<std::vector<ValueId>> dying(nodes.size() + 1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for_each_value(nodes[i].results, [&](ValueId id) {
      if (root[id] != id) return;
      now += value(id).bytes();
      dying[std::max(last[id], i)].push_back(id);
    });
    peak = std::max(peak, now);
    for (ValueId id : dying[i]) now -= value(id).bytes();
  }
  return peak;
}

Value describe(const Tensor& tensor) {
  Value v;
  v.dtype = tensor.scalar_type();
  v.device = tensor.device();
  v.sizes = tensor.sizes().vec();
  v.strided = tensor.layout() == c10::kStrided;
  if (v.strided) v.strides = tensor.strides().vec();
  return v;
}

Stack make_stack(const std::vector<Argument>& arguments,
                 const std::function<Tensor(ValueId)>& value) {
  Stack stack;
  stack.reserve(arguments.size() + 2);
  for (const Argument& a : arguments) switch (a.kind) {
      case Argument::Kind::constant:
        stack.push_back(a.constant);
        break;
      case Argument::Kind::value:
        stack.emplace_back(value(a.values[0]));
        break;
      case Argument::Kind::list: {
        c10::List<Tensor> list;
        list.reserve(a.values.size());
        for (ValueId id : a.values) list.push_back(value(id));
        stack.emplace_back(std::move(list));
        break;
      }
      case Argument::Kind::optional_list: {
        c10::List<std::optional<Tensor>> list;
        list.reserve(a.values.size());
        for (ValueId id : a.values)
          list.push_back(id == kNone ? std::nullopt : std::optional<Tensor>(value(id)));
        stack.emplace_back(std::move(list));
        break;
      }
    }
  return stack;
}

void take_results(const std::vector<Argument>& results, const Stack& stack,
                  const std::function<void(ValueId, const Tensor&)>& put) {
  for (size_t r = 0; r < results.size(); ++r) {
    const Argument& result = results[r];
    if (result.kind == Argument::Kind::value) {
      put(result.values[0], stack[r].toTensor());
    } else if (result.kind == Argument::Kind::list) {
      const auto list = stack[r].toTensorList();
      for (size_t k = 0; k < result.values.size(); ++k)
        if (result.values[k] != kNone) put(result.values[k], list.get(k));
    }
  }
}

Tensors interpret(const Program& program, const Tensors& bound) {
  WIDE_ASSERT(bound.size() == program.bound.size(), "{} tensors for {} bound values", bound.size(),
              program.bound.size());
  ByValue<Tensor> env(program.values.size());
  for (size_t i = 0; i < bound.size(); ++i) env[program.bound[i]] = bound[i];
  for (ValueId id = 0; id < env.size(); ++id)
    if (program.value(id).role == Role::constant) env[id] = program.value(id).constant;
  ByValue<int32_t> left = program.uses();
  const std::function<Tensor(ValueId)> value = [&](ValueId id) { return env[id]; };
  const std::function<void(ValueId, const Tensor&)> put = [&](ValueId id, const Tensor& t) {
    if (left[id] > 0) env[id] = t;
  };
  const bool grad = at::GradMode::is_enabled();
  for (const Node& node : program.nodes) {
    const at::AutoGradMode mode(grad && node.grad);
    Stack stack = make_stack(node.arguments, value);
    call_operator(node.op, stack);
    if (grad && is_untracked_write(node.op, node.grad))
      stack[0] = written_over(env[node.arguments[0].values[0]], stack[0].toTensor());
    take_results(node.results, stack, put);
    for_each_value(node.arguments, [&](ValueId id) {
      if (--left[id] == 0) env[id].reset();
    });
  }
  Tensors results;
  for (const ValueId id : program.results()) results.push_back(env[id]);
  return results;
}

at::ScalarType raised(at::ScalarType type) {
  if (c10::isComplexType(type)) return at::kComplexDouble;
  return c10::isFloatingType(type) ? at::kDouble : type;
}

/// The dtype for a factory without a dtype argument, which uses the default dtype, if its result
/// was floating. Other operators follow their arguments, which are raised.
static IValue raised_default(const Program& program, const Node& node) {
  IValue dtype;
  for_each_value(node.results, [&](ValueId id) {
    const at::ScalarType made = program.value(id).dtype;
    if (dtype.isNone() && (c10::isFloatingType(made) || c10::isComplexType(made)))
      dtype = static_cast<int64_t>(raised(made));
  });
  return dtype;
}

Program raise_to_double(const Program& program) {
  Program result = program;
  for (Value& v : result.values) {
    if (v.role == Role::constant && raised(v.dtype) != v.dtype) {
      const bool wrapped = v.constant.unsafeGetTensorImpl()->is_wrapped_number();
      v.constant = v.constant.to(raised(v.dtype));
      if (wrapped) v.constant.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    v.dtype = raised(v.dtype);
  }
  for (Node& node : result.nodes) {
    const auto& schema = node.op.schema().arguments();
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      if (node.arguments[i].kind != Argument::Kind::constant) continue;
      IValue& v = node.arguments[i].constant;
      c10::TypePtr type = schema[i].real_type();
      if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
      if (type->kind() != c10::TypeKind::ScalarTypeType) continue;
      if (v.isInt()) v = static_cast<int64_t>(raised(static_cast<at::ScalarType>(v.toInt())));
      if (v.isNone()) v = raised_default(program, node);
    }
  }
  return result;
}

}  // namespace wide
