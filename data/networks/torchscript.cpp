#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "data/networks/mode_flags.h"
#include "data/networks/network_format.h"
#include "data/networks/torchscript_averages.h"
#include "data/networks/torchscript_call.h"
#include "data/networks/torchscript_load.h"
#include "data/networks/torchscript_place.h"
#include "data/one_line.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/record/recorded_constant.h"
#include "engine/record/substitution.h"

namespace wide::torchscript_network {
namespace {

/// Logs warnings of the file's code as one line without control characters.
class PlainWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    write_stderr(fmt::format("[TorchScript] warning: {}\n", printable(warning.msg(), 400)));
  }
  static c10::WarningHandler* get() {
    static PlainWarnings handler;
    return &handler;
  }
};
using WarningGuard = c10::WarningUtils::WarningHandlerGuard;

using Object = c10::ivalue::Object;
using ObjectPtr = c10::intrusive_ptr<Object>;
using Copies = std::unordered_map<const Object*, ObjectPtr>;

/// Where a module holds a tensor.
struct Slot {
  ObjectPtr owner;
  size_t index = 0;
};

struct Weight {
  TensorSpec spec;
  Tensor initial;
  std::vector<Slot> slots = {};  // several when tied
};

constexpr int kDeepest = 1000;  // nesting depth of containers

/// A copy of `value` and its containers in which each tensor t is `other(t)`.
IValue rebuilt(const IValue& value, const std::function<Tensor(const Tensor&)>& other,
               int depth = 0) {
  // Code in the file makes the module's attributes, so a list may contain itself.
  if (depth > kDeepest)
    fail(
        "[TorchScript] attribute: got containers deeper in one another, expected at most {}; try "
        "to export a module without them",
        kDeepest);
  if (value.isTensor()) return value.toTensor().defined() ? IValue(other(value.toTensor())) : value;
  if (value.isList()) {
    const auto from = value.toList();
    c10::impl::GenericList to(from.elementType());
    for (const IValue& item : from) to.push_back(rebuilt(item, other, depth + 1));
    return to;
  }
  if (value.isTuple()) {
    std::vector<IValue> items;
    for (const IValue& item : value.toTupleRef().elements())
      items.push_back(rebuilt(item, other, depth + 1));
    const auto type = value.toTupleRef().type();
    return type->schema() ? IValue(c10::ivalue::Tuple::createNamed(std::move(items), type))
                          : IValue(c10::ivalue::Tuple::create(std::move(items)));
  }
  if (value.isGenericDict()) {
    const auto from = value.toGenericDict();
    c10::impl::GenericDict to(from.keyType(), from.valueType());
    for (const auto& item : from) to.insert(item.key(), rebuilt(item.value(), other, depth + 1));
    return to;
  }
  return value.isObject() ? value.deepcopy() : value;
}

/// Equal for tensors with the same memory, sizes and strides: one weight under two names.
std::string identity(const Tensor& t) {
  if (t.numel() == 0 || !t.has_storage())
    return fmt::format("{}", fmt::ptr(t.unsafeGetTensorImpl()));
  return fmt::format("{} {} {} {}", t.storage().data(), t.storage_offset(), sizes_text(t.sizes()),
                     sizes_text(t.strides()));
}

using Identities = std::set<std::string>;

Identities weights_of(const torch::jit::Module& module) {
  Identities found;
  for (const Tensor& t : module.parameters()) found.insert(identity(t));
  for (const Tensor& t : module.buffers()) found.insert(identity(t));
  return found;
}

/// A copy of a module whose slots can be set; it shares the weights, which the caller replaces, and
/// has what `copy` returns for other tensors. Types, and with them the compiled code, are shared,
/// as they are among N instances in Python.
ObjectPtr copy_structure(const ObjectPtr& from, const Identities& weights,
                         const std::function<Tensor(const Tensor&)>& copy, Copies& copies) {
  if (const auto it = copies.find(from.get()); it != copies.end()) return it->second;
  const ObjectPtr to = from->copy();
  copies[from.get()] = to;
  for (size_t i = 0; i < from->slots().size(); ++i) {
    const IValue& value = from->getSlot(i);
    if (value.isObject())
      to->setSlot(i, copy_structure(value.toObject(), weights, copy, copies));
    else
      to->setSlot(i, rebuilt(value, [&](const Tensor& t) {
                    return weights.count(identity(t)) ? t : copy(t);
                  }));
  }
  return to;
}

/// What is read from one file. Networks and models made from it keep it alive.
struct Loaded {
  std::string name;
  torch::jit::Module module;
  std::vector<Weight> weights;
  std::map<std::string, std::string> aliases;
  std::map<std::string, size_t> known;  // index in `weights` by identity()
  std::vector<Slot> holders;            // attributes that hold weights as plain tensors
  at::ScalarType dtype = at::kFloat;
  FormFlags forms;
  std::vector<bool> training;  // of each submodule, as in the file

  const c10::FunctionSchema& schema() const {
    return module.get_method("forward").function().getSchema();
  }
};

/// Collects the weights of one role.
void collect(const torch::jit::Module& module, const std::string& prefix, Role role,
             Loaded& loaded) {
  const ObjectPtr object = module._ivalue();
  const auto& type = object->type();
  for (size_t i = 0; i < object->slots().size(); ++i) {
    const IValue& value = object->getSlot(i);
    const std::string name = prefix + type->getAttributeName(i);
    if (type->getAttribute(i)->is_module()) {
      collect(torch::jit::Module(value.toObject()), name + ".", role, loaded);
      continue;
    }
    const bool wanted = role == Role::parameter ? type->is_parameter(i) : type->is_buffer(i);
    if (!wanted || !value.isTensor() || !value.toTensor().defined()) continue;
    const Tensor tensor = value.toTensor().detach();
    const auto [it, fresh] = loaded.known.emplace(identity(tensor), loaded.weights.size());
    if (fresh)
      loaded.weights.push_back(
          {{name, role, tensor.sizes().vec(), tensor.scalar_type(), Fill::normal, 1.0}, tensor});
    else
      loaded.aliases[name] = loaded.weights[it->second].spec.name;
    loaded.weights[it->second].slots.push_back({object, i});
  }
}

/// Collects attributes, such as the weight list of a recurrent layer, that hold weights as plain
/// tensors.
void collect_holders(const ObjectPtr& object, Loaded& loaded, std::set<const Object*>& seen) {
  if (!seen.insert(object.get()).second) return;
  const auto& type = object->type();
  for (size_t i = 0; i < object->slots().size(); ++i) {
    const IValue& value = object->getSlot(i);
    if (value.isObject()) {
      collect_holders(value.toObject(), loaded, seen);
      continue;
    }
    if (type->is_parameter(i) || type->is_buffer(i)) continue;
    bool holds = false;
    rebuilt(value, [&](const Tensor& t) {
      holds |= loaded.known.count(identity(t)) > 0;
      return t;
    });
    if (holds) loaded.holders.push_back({object, i});
  }
}

void collect_all(Loaded& loaded) {
  collect(loaded.module, "", Role::parameter, loaded);
  collect(loaded.module, "", Role::buffer, loaded);
  std::set<const Object*> seen;
  collect_holders(loaded.module._ivalue(), loaded, seen);
}

/// The value of a holder's slot in a model whose weights are `tensors`.
IValue held(const Loaded& loaded, const Slot& holder, const Tensors& tensors) {
  return rebuilt(holder.owner->getSlot(holder.index), [&](const Tensor& t) {
    const auto weight = loaded.known.find(identity(t));
    return weight == loaded.known.end() ? t : tensors.at(weight->second);
  });
}

/// A value that depends only on constants and the module's attributes (the graph's `self`); nullopt
/// for others.
std::optional<IValue> known_value(torch::jit::Value* value, const torch::jit::Module& module,
                                  const torch::jit::Value* self) {
  if (value == self) return IValue(module._ivalue());
  torch::jit::Node* const node = value->node();
  if (node->kind() == torch::jit::prim::Constant) return torch::jit::toIValue(value);
  if (node->kind() == torch::jit::prim::GetAttr) {
    const auto owner = known_value(node->input(0), module, self);
    if (!owner || !owner->isObject()) return std::nullopt;
    return owner->toObject()->getAttr(node->s(torch::jit::attr::name));
  }
  if (node->kind() != torch::jit::prim::If) return std::nullopt;
  const auto condition = known_value(node->input(0), module, self);
  if (!condition || !condition->isBool()) return std::nullopt;
  return known_value(node->blocks()[condition->toBool() ? 0 : 1]->outputs()[value->offset()],
                     module, self);
}

/// Whether a flag, or a dropout probability, says that the call acts as in training.
bool is_on(const IValue& value) {
  return value.isBool() ? value.toBool() : value.isDouble() && value.toDouble() > 0;
}

/// The flags of all calls in forward, those of submodules included.
FormFlags flags_of(torch::jit::Module module) {
  FormFlags flags;
  for (const auto& part : module.modules())
    flags.exported_for_training = flags.exported_for_training || part.is_training();
  const std::shared_ptr<torch::jit::Graph> graph = module.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  const std::function<void(torch::jit::Block*)> look = [&](torch::jit::Block* block) {
    for (torch::jit::Node* node : block->nodes()) {
      for (torch::jit::Block* inner : node->blocks()) look(inner);
      const std::string op = node->kind().toQualString();
      const ModeFlag* flag = mode_flag(op);
      if (is_bound_to_mode(op)) flags.bound = op;
      if (!flag || !node->maybeSchema()) continue;
      const auto at = [&](std::string_view name) -> torch::jit::Value* {
        const auto place = node->schema().argumentIndexWithName(std::string(name));
        return place ? node->input(static_cast<size_t>(*place)) : nullptr;
      };
      torch::jit::Value* const value = at(flag->argument);
      if (!value) continue;
      if (!flag->needs.empty() && at(flag->needs) &&
          at(flag->needs)->type()->kind() == c10::TypeKind::NoneType)
        continue;
      // A trace has the flag as a constant; a script reads the module's attribute.
      const bool constant = value->node()->kind() == torch::jit::prim::Constant;
      if (constant && (!flag->probability || torch::jit::toIValue(value)->toDouble() > 0))
        flags.bound = op + " with a constant " + std::string(flag->argument);
      FormCalls& calls = flag->what == ModeFlag::What::dropout ? flags.dropout : flags.batch_norm;
      ++calls.all;
      const auto known = known_value(value, module, graph->inputs()[0]);
      calls.on += known ? is_on(*known) : flags.exported_for_training;
    }
  };
  look(graph->block());
  return flags;
}

/// Sets every submodule to training; in a file exported for training, to what each is in the file.
void put_into_training(const torch::jit::Module& module, const Loaded& loaded) {
  torch::jit::Module(module).train(true);
  if (!loaded.forms.exported_for_training) return;
  size_t i = 0;
  for (torch::jit::Module part : torch::jit::Module(module).modules())
    part.setattr("training", IValue(static_cast<bool>(loaded.training.at(i++))));
}

/// A copy of the file's module with these weights.
torch::jit::Module with_weights(const Loaded& loaded, const Tensors& weights,
                                Form form = Form::as_exported) {
  Copies copies;
  torch::jit::Module module(copy_structure(
      loaded.module._ivalue(), weights_of(loaded.module),
      [](const Tensor& t) { return t.detach().clone(); }, copies));
  for (size_t k = 0; k < loaded.weights.size(); ++k)
    for (const Slot& slot : loaded.weights[k].slots)
      copies.at(slot.owner.get())->setSlot(slot.index, weights.at(k));
  for (const Slot& slot : loaded.holders)
    copies.at(slot.owner.get())->setSlot(slot.index, held(loaded, slot, weights));
  if (form == Form::train) put_into_training(module, loaded);
  return module;
}

/// The file's module, and copies of it for other devices than the one that its code names.
class Placements {
 public:
  explicit Placements(std::shared_ptr<const Loaded> loaded) : loaded_(std::move(loaded)) {}

  const Loaded& on(c10::Device device) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const Loaded>& made = all_[device.str()];
    if (!made && device.is_cpu() && !names_other_device(loaded_->module, device)) made = loaded_;
    if (!made) made = moved(device);
    return *made;
  }
  /// On the device of the first of `tensors`; on the CPU if there is none.
  const Loaded& beside(const Tensors& tensors) {
    return on(tensors.empty() ? c10::Device(c10::kCPU) : tensors.front().device());
  }

 private:
  /// Tensors that are neither parameters nor buffers move along.
  std::shared_ptr<const Loaded> moved(c10::Device device) const {
    const Unrecorded kept;
    const c10::InferenceMode any_mode_may_use_it(false);
    const at::NoGradGuard no_grad;
    auto made = std::make_shared<Loaded>(*loaded_);
    Copies copies;
    made->module = torch::jit::Module(copy_structure(
        placed_on(loaded_->module, device)._ivalue(), weights_of(loaded_->module),
        [&](const Tensor& t) { return t.detach().to(device); }, copies));
    made->known.clear();
    made->holders.clear();
    made->weights.clear();
    collect_all(*made);
    return made;
  }

  std::shared_ptr<const Loaded> loaded_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Loaded>> all_;  // by device
};

Model instantiate(const std::shared_ptr<Placements>& placements,
                  const std::shared_ptr<ForwardCall>& call, const Tensors& weights, Form form) {
  Tensors own = weights;
  const Loaded& loaded = placements->beside(weights);
  // A forward may update its buffers in place; the caller's tensors must not see that.
  for (size_t k = 0; k < own.size(); ++k)
    if (loaded.weights[k].spec.role == Role::buffer) own[k] = own[k].clone();
  const auto forward_of = [form](const Loaded& placed, const Tensors& tensors) {
    return with_weights(placed, tensors, form).get_method("forward");
  };
  std::optional<torch::jit::Method> forward;
  if (!own.empty()) forward = forward_of(loaded, own);
  return [placements, call, forward_of, forward, &loaded](const Tensors& inputs) mutable {
    const at::NoGradGuard no_grad;
    const WarningGuard warnings(PlainWarnings::get());
    // Without weights the first inputs say where.
    if (!forward) forward = forward_of(placements->beside(inputs), {});
    return flatten_outputs((*forward)(call->arguments(inputs)), loaded.name);
  };
}

class TorchScriptFile : public NetworkFile {
 public:
  explicit TorchScriptFile(std::shared_ptr<const Loaded> loaded)
      : loaded_(std::move(loaded)), placements_(std::make_shared<Placements>(loaded_)) {}

  std::string wanted() const override { return wanted_inputs(loaded_->schema()); }
  at::ScalarType dtype() const override { return loaded_->dtype; }

  std::vector<std::string> input_names() const override {
    std::vector<std::string> names;
    const auto& arguments = loaded_->schema().arguments();
    for (size_t i = 1; i < arguments.size(); ++i)
      if (arguments[i].type()->kind() == c10::TypeKind::TensorType)
        names.push_back(arguments[i].name());
    return names;
  }

  std::vector<std::string> output_names() const override {
    return result_names(*loaded_->module.get_method("forward").graph());
  }

  FormFlags forms() const override { return loaded_->forms; }

  Network network(const std::vector<TensorSpec>& inputs, Form form) const override {
    const auto call =
        std::make_shared<ForwardCall>(loaded_->schema(), names_of(inputs), loaded_->name);

    Network network;
    network.name = loaded_->name;
    network.tensors = inputs;
    for (TensorSpec& input : network.tensors)  // forward declares no dtypes
      if (!input.follows_run()) input.set_dtype(input.dtype, loaded_->dtype);
    for (const Weight& weight : loaded_->weights) {
      network.tensors.push_back(weight.spec);
      network.initial.push_back(weight.initial);
    }
    network.aliases = loaded_->aliases;
    for (const auto& [alias, name] : network.aliases)
      network.notes.push_back(
          fmt::format("{} and {} are tied: one weight", printable(name), printable(alias)));

    const size_t count = inputs.size();
    network.forward = [placements = placements_, call, count, form](const Tensors& bound) {
      // The optimising executor would profile and fuse calls; a recording needs them as written.
      const torch::jit::GraphOptimizerEnabledGuard plain(false);
      const LiteralScope literals;
      const WarningGuard warnings(PlainWarnings::get());
      const auto middle = bound.begin() + static_cast<std::ptrdiff_t>(count);
      const Loaded& loaded = placements->beside(bound);
      const torch::jit::Module module = with_weights(loaded, Tensors(middle, bound.end()), form);
      const IValue result = module.get_method("forward")(call->arguments({bound.begin(), middle}));
      return flatten_outputs(result, loaded.name);
    };
    network.instantiate = [placements = placements_, call, form](const Tensors& weights) {
      return instantiate(placements, call, weights, form);
    };
    return network;
  }

 private:
  std::shared_ptr<const Loaded> loaded_;
  std::shared_ptr<Placements> placements_;
};

std::unique_ptr<NetworkFile> wrap(torch::jit::Module module, const std::string& name) {
  auto loaded = std::make_shared<Loaded>();
  loaded->name = name;
  loaded->module = std::move(module);
  if (!loaded->module.find_method("forward"))
    fail("[{}] forward: got a module without it, expected one; try to export a whole model",
         printable(name));
  average_by_tensors(loaded->module);
  loaded->forms = flags_of(loaded->module);
  for (const auto& part : loaded->module.modules()) loaded->training.push_back(part.is_training());
  loaded->module.eval();
  collect_all(*loaded);
  for (const Weight& weight : loaded->weights)
    if (c10::isFloatingType(weight.spec.dtype)) {
      loaded->dtype = weight.spec.dtype;
      break;
    }
  for (Weight& weight : loaded->weights) weight.spec.set_dtype(weight.spec.dtype, loaded->dtype);
  return std::make_unique<TorchScriptFile>(std::move(loaded));
}

std::unique_ptr<NetworkFile> load(const std::string& path, const NetworkOptions& options) {
  const WarningGuard warnings(PlainWarnings::get());
  try {
    return wrap(load_torchscript(path, options.trusted), path);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    if (is_out_of_memory(e)) throw;
    fail("[{}] TorchScript: got {}, expected a module of torch.jit.save; try to export it again",
         printable(path), one_line(e));
  }
}

const bool registered =
    add_network_format({"TorchScript", {".ts", ".pt", ".torchscript"}, is_torchscript, load});

}  // namespace

}  // namespace wide::torchscript_network
