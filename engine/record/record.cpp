#include "engine/record/record.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/library.h>

#include <mutex>
#include <unordered_map>

#include "engine/error.h"
#include "engine/program/registry.h"
#include "engine/record/captured.h"
#include "engine/record/checks/argument_checks.h"
#include "engine/record/checks/data_dependence.h"
#include "engine/record/checks/storage_access.h"
#include "engine/record/draws.h"
#include "engine/record/dry/dry.h"
#include "engine/record/dry/meta_kernels.h"
#include "engine/record/dry/recording_budget.h"
#include "engine/record/process_switch.h"
#include "engine/record/recorded_constant.h"
#include "engine/record/substitution.h"
#include "engine/record/untracked_writes.h"

namespace wide {

namespace {

namespace fz = at::functionalization::impl;
using c10::DispatchKey;
using c10::DispatchKeySet;

constexpr auto kInfo = c10::DebugInfoKind::INFERENCE_CONTEXT;

constexpr DispatchKeySet kRecordingKeys({DispatchKey::Fake, DispatchKey::DeferredInit,
                                         DispatchKey::Functionalize});

/// What a value depends on beside sizes: an input or parameter, a random draw.
constexpr uint8_t kOnBound = 1, kOnDraw = 2;

/// The state of one recording. Autograd's threads inherit it as thread-local debug info, so its
/// lists are locked.
struct Recording : c10::DebugInfoBase {
  std::mutex mutex;
  Program program;
  std::unordered_map<const c10::TensorImpl*, ValueId> ids;
  // Results are held weakly: their addresses are not reused, but their storage is freed.
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> weak;
  Tensors strong;
  ByValue<uint8_t> depends;  // kOnBound and kOnDraw, by value
  Origin origin;
  bool with_regions = false, dry = dry_recording();
  bool keeps_grad_mode = false;  // grad mode was on at the start: the code itself turns it off
  int32_t depth = 0;
  Captured captured;
  Untracked untracked;
  /// The first value in every storage, of which the others are views; held weakly as well.
  struct Root {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    ValueId id;
    Positions layout;
  };
  std::unordered_map<const void*, Root> roots;
  std::optional<Error> refusal;

  ValueId fresh(const Tensor& t, Role role, uint8_t dependence) {
    Value v = describe(t);
    v.role = role;
    if (role == Role::constant) v.constant = t;
    const ValueId id = program.add_value(std::move(v));
    name(t, id);
    if (role == Role::intermediate)
      weak.emplace_back(t.getIntrusivePtr());
    else
      strong.push_back(t);
    depends.push_back(dependence);
    return id;
  }
  void name(const Tensor& t, ValueId id) {
    ids.emplace(t.unsafeGetTensorImpl(), id);
    if (t.layout() == c10::kStrided && t.has_storage())
      roots.try_emplace(t.storage().unsafeGetStorageImpl(),
                        Root{t.storage().getWeakStorageImpl(), id, positions_of(t)});
  }
  ValueId read(const Tensor& t) {
    auto it = ids.find(t.unsafeGetTensorImpl());
    return it != ids.end() ? it->second : fresh(t, Role::constant, 0);
  }
  bool known(const Tensor& t) const { return ids.count(t.unsafeGetTensorImpl()) > 0; }

  template <class Id>
  Argument argument(const IValue& v, Id id) {
    Argument a;
    if (v.isTensor() && v.toTensor().defined()) {
      a = Argument::of_value(id(v.toTensor()));
    } else if (v.isTensorList()) {
      a.kind = Argument::Kind::list;
      for (const Tensor& t : v.toTensorVector()) a.values.push_back(id(t));
    } else if (v.isList() &&
               std::ranges::any_of(v.toListRef(), [](const IValue& e) { return e.isTensor(); })) {
      a.kind = Argument::Kind::optional_list;
      for (const IValue& e : v.toListRef())
        a.values.push_back(e.isTensor() && e.toTensor().defined() ? id(e.toTensor()) : kNone);
    } else {
      a.constant = v;
    }
    return a;
  }
  Argument read_argument(const IValue& v) {
    return argument(v, [this](const Tensor& t) { return read(t); });
  }
};

/// Of this thread's last recording of one model.
thread_local std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> last_results;

Recording* current() { return static_cast<Recording*>(c10::ThreadLocalDebugInfo::get(kInfo)); }

Tensor plain(const Tensor& t) {
  if (!t.defined() || !fz::isFunctionalTensor(t)) return t;
  fz::sync(t);
  return fz::from_functional_tensor(t);
}

/// The value with each of its tensors, also those in lists, replaced by what `other` returns.
IValue with_others(const IValue& v, const std::function<Tensor(const Tensor&)>& other) {
  if (v.isTensor()) return other(v.toTensor());
  if (!v.isList()) return v;
  auto list = v.toList().copy();
  for (size_t i = 0; i < list.size(); ++i)
    if (const IValue e = list.get(i); e.isTensor()) list.set(i, other(e.toTensor()));
  return list;
}

/// The argument with functional wrappers taken off. Functionalization does not unwrap `Tensor?[]`,
/// so those must be unwrapped before it.
IValue plain_value(const IValue& v) { return with_others(v, plain); }

bool is_meta(const IValue& v) {
  if (v.isTensor()) return v.toTensor().defined() && v.toTensor().is_meta();
  if (v.isTensorList()) {
    for (const Tensor& t : v.toTensorVector())
      if (t.defined() && t.is_meta()) return true;
  }
  return false;
}

/// TorchScript's interpreter replaces exceptions that pass through it, so `record` throws it again.
[[noreturn]] void refuse(Recording& r, const std::string& why) {
  r.refusal = Error(why);
  throw *r.refusal;
}

/// Refuses a result whose value or shape depends on a model's data: it must not become a constant.
void refuse_data_dependence(Recording& r, const c10::OperatorHandle& op, const Node& node) {
  const bool value = op.hasTag(at::Tag::data_dependent_output);
  uint8_t dependence = 0;
  for (const ValueId id : deciding_values(r.program, node)) dependence |= r.depends[id];
  if (!dependence) return;
  const char* advice = value ? "torch.where instead of a branch on tensor data"
                             : "a mask of fixed size instead of selecting by data";
  refuse(r, fmt::format("[{}] data-dependent operator: got a {} that depends on {}, expected one "
                        "known from the sizes alone; try {}",
                        node.name(), value ? "Python number" : "result shape",
                        dependence & kOnBound ? "an input or parameter" : "a random draw", advice));
}

/// A program draws from PyTorch's default generator alone: a generator that forward makes and seeds
/// would give the same numbers in every call.
void refuse_generators(Recording& r, const c10::OperatorHandle& op, c10::ArrayRef<IValue> given) {
  for (const IValue& v : given)
    if (v.isGenerator() && v.toGenerator().defined() &&
        v.toGenerator() != at::globalContext().defaultGenerator(v.toGenerator().device()))
      refuse(r, fmt::format("[{}] generator: got one of the network's own, expected PyTorch's "
                            "default one; try it without generator=, or numbers drawn before",
                            op.schema().name()));
}

void refuse_arguments(Recording& r, const c10::OperatorHandle& op, c10::ArrayRef<IValue> given) {
  refuse_generators(r, op, given);
  const std::string fault = fault_of_arguments(op, given);
  if (fault.empty()) return;
  refuse(r, fmt::format("[{}] arguments: got {}, expected sizes that go together; try to export "
                        "the network again",
                        op.schema().name(), fault));
}

bool is_sparse(const Tensor& t) {
  const c10::Layout l = t.layout();
  return l == c10::kSparse || l == c10::kSparseCsr || l == c10::kSparseCsc ||
         l == c10::kSparseBsr || l == c10::kSparseBsc;
}

/// Refuses sparse results, whose number of elements depends on data.
void refuse_sparse_result(Recording& r, const std::string& op, const Tensor& t) {
  if (!is_sparse(t)) return;
  refuse(r, fmt::format("[{}] result: got the layout {}, expected strided; try sparse=False of an "
                        "embedding, or to_dense()",
                        op, c10::str(t.layout())));
}

/// Collects the storages of tensors with strides.
void add_storages(const IValue& v, std::vector<const void*>& out) {
  auto add = [&](const Tensor& t) {
    if (t.defined() && t.layout() == c10::kStrided && t.has_storage() && t.numel() > 0)
      out.push_back(t.storage().unsafeGetStorageImpl());
  };
  if (v.isTensor()) add(v.toTensor());
  if (v.isTensorList())
    for (const Tensor& t : v.toTensorVector()) add(t);
}

/// A tensor with the elements at all these places of `self`'s storage: `self`, or its base.
Tensor whole_of(Recording& r, const c10::OperatorHandle& op, const Tensor& self,
                const Positions& at) {
  if (has_all(self, at)) return self;
  std::lock_guard lock(r.mutex);
  r.read(self);
  const auto& [storage, id, layout] = r.roots.at(self.storage().unsafeGetStorageImpl());
  const c10::impl::ExcludeDispatchKeyGuard off(kRecordingKeys);
  const Tensor whole = self.as_strided(layout.sizes, layout.strides, layout.offset);
  if (!has_all(whole, at))
    refuse(r, fmt::format("[{}] places in memory: got some outside of the tensor that is read, "
                          "expected those of its elements; try sizes, strides and an offset that "
                          "stay inside",
                          op.schema().name()));
  r.ids.emplace(whole.unsafeGetTensorImpl(), id);
  r.strong.push_back(whole);
  return whole;
}

/// Makes a call that addresses elements by their place in the storage unchanged for the caller, and
/// records one that picks the same elements by their index in a value.
void record_storage_access(Recording& r, const c10::OperatorHandle& op, DispatchKeySet below,
                           Stack* stack) {
  const StorageCall call(op, *stack);
  Tensor recorded;
  {
    const at::AutoDispatchBelowADInplaceOrView no_grad;
    const c10::impl::ExcludeDispatchKeyGuard off(
        DispatchKeySet({DispatchKey::DeferredInit, DispatchKey::Functionalize}));
    recorded = call.source.defined() ? put_elements(call.self, call.source, call.at)
                                     : pick_elements(whole_of(r, op, call.self, call.at), call.at);
  }
  const c10::impl::ExcludeDispatchKeyGuard off(
      DispatchKeySet({DispatchKey::Fake, DispatchKey::DeferredInit}));
  op.redispatchBoxed(below, stack);
  const Tensor& result = stack->back().toTensor();
  std::lock_guard lock(r.mutex);
  r.name(result, r.read(recorded));
  r.weak.emplace_back(result.getIntrusivePtr());
}

void record_call(const c10::OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  const auto below = keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::Fake);
  Recording* r = current();
  if (r != nullptr && accesses_storage(op, *stack)) {
    record_storage_access(*r, op, below, stack);
    return;
  }
  // Calls inside a kernel are not recorded.
  c10::impl::ExcludeDispatchKeyGuard off(
      DispatchKeySet({DispatchKey::Fake, DispatchKey::DeferredInit}));
  const auto& schema = op.schema();
  if (r == nullptr) {
    op.redispatchBoxed(below, stack);
    return;
  }
  const size_t base = stack->size() - schema.arguments().size();
  Node node{op, {}, {}, {}};
  node.grad = !r->keeps_grad_mode || at::GradMode::is_enabled();
  // Functionalization's calls on meta tensors, for shapes, are not part of the program.
  bool probe = false;
  std::vector<const void*> memory;
  {
    std::lock_guard lock(r->mutex);
    for (size_t i = base; i < stack->size(); ++i) {
      IValue& v = (*stack)[i];
      if (v.isList()) v = plain_value(v);
      probe = probe || is_meta(v);
      add_storages(v, memory);
      if (!probe) node.arguments.push_back(r->read_argument(v));
    }
    if (!probe) refuse_data_dependence(*r, op, node);
    if (!probe)
      refuse_arguments(*r, op, c10::ArrayRef<IValue>(stack->data() + base, stack->size() - base));
  }
  call_below(op, below, stack, r->dry && !probe);
  if (probe) return;
  std::lock_guard lock(r->mutex);
  uint8_t dependence = node.is_random() ? kOnDraw : 0;
  bool all_known = true, any_tensor = false;
  for_each_value(node.arguments, [&](ValueId id) { dependence |= r->depends[id]; });
  for (size_t i = base; i < stack->size(); ++i) {
    if (is_meta((*stack)[i])) return;
    if ((*stack)[i].isTensor() && (*stack)[i].toTensor().defined()) {
      any_tensor = true;
      all_known = all_known && r->known((*stack)[i].toTensor());
    } else if ((*stack)[i].isTensorList()) {
      any_tensor = true;
      all_known = false;
    }
  }
  // Not recorded: calls that return an argument unchanged (lift_fresh, a conversion to the same
  // dtype), and calls without tensor results.
  if (!any_tensor || all_known) {
    if (!schema.is_mutable()) return;
    WIDE_ASSERT(false, "{} reached the recording and mutates its argument", node.name());
  }
  for (size_t i = base; i < stack->size(); ++i)
    node.results.push_back(r->argument((*stack)[i], [&](const Tensor& t) {
      if (!t.defined()) return kNone;
      if (dependence) refuse_sparse_result(*r, node.name(), t);
      return r->fresh(t, Role::intermediate, dependence);
    }));
  // Some operators return views although their schema declares none (unsafe_split).
  std::vector<const void*> made;
  for (size_t i = base; i < stack->size(); ++i) add_storages((*stack)[i], made);
  node.aliases = std::ranges::any_of(made, [&](const void* storage) {
    return std::ranges::find(memory, storage) != memory.end();
  });
  node.origin = r->origin;
  count_made(r->program, node);
  r->program.nodes.push_back(std::move(node));
}

const Decomposition* find_decomposition(const c10::OperatorHandle& op,
                                        c10::ArrayRef<IValue> arguments) {
  const std::string& name = op.schema().operator_name().name;
  for (const Decomposition& d : registry<Decomposition>())
    if (d.op == name && (!d.applies || d.applies(arguments))) return &d;
  return nullptr;
}

/// Whether the call is made by the model's code or a composite, not by kernels or functionalization
/// on unwrapped tensors.
bool above_functionalization() {
  return !c10::impl::tls_local_dispatch_key_set().excluded_.has(DispatchKey::Functionalize);
}

/// Whether TorchScript's interpreter makes the call, not an operator.
bool interpreter_calls(const Recording& r) {
  return LiteralScope::active() && r.depth == 0 && above_functionalization();
}

/// Marks memory that the interpreter writes, for literals made from numbers, as writable.
void note_written(Recording& r, const c10::OperatorHandle& op, const Stack& stack, size_t base) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const IValue& v = stack[base + i];
    if (!arguments[i].alias_info() || !arguments[i].alias_info()->isWrite() || !v.isTensor())
      continue;
    r.captured.add_literal(v.toTensor());
  }
}

/// Replaces each tensor by what `other` returns for it, unless that is null. True if any was
/// replaced.
bool put_others(Stack& stack, size_t base,
                const std::function<const Tensor*(const Tensor&)>& other) {
  bool any = false;
  for (size_t i = base; i < stack.size(); ++i) {
    bool changed = false;
    IValue replaced = with_others(stack[i], [&](const Tensor& own) {
      const Tensor* t = other(own);
      changed = changed || t != nullptr;
      return t ? *t : own;
    });
    if (changed) stack[i] = std::move(replaced), any = true;
  }
  return any;
}

/// Above autograd: notes composite calls as regions, and replaces those with a decomposition.
void note_composite(const c10::OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const size_t base = stack->size() - count;
  Recording* r = current();
  // The interpreter allocates with the same operator as user code. Treating a user's allocation the
  // same way is harmless: it is written before it is read.
  if (r != nullptr && op.schema().name() == "aten::empty" && interpreter_calls(*r)) {
    const c10::impl::ExcludeDispatchKeyGuard off(kRecordingKeys);
    op.callBoxed(stack);
    r->captured.add_literal(stack->back().toTensor());
    return;
  }
  if (r != nullptr && op.schema().is_mutable() && interpreter_calls(*r))
    note_written(*r, op, *stack, base);
  // The call is dispatched anew, as the replaced tensors may be on another device, or batched.
  if (Substitution::active() && put_others(*stack, base, &Substitution::stand_in)) {
    op.callBoxed(stack);
    return;
  }
  // lift() wraps its tensor itself.
  if (r != nullptr && r->with_regions && above_functionalization() &&
      op.schema().name().rfind("aten::lift", 0) != 0)
    put_others(*stack, base, [r](const Tensor& t) { return r->captured.wrapped(t); });
  const auto rest = keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::DeferredInit);
  if (r == nullptr) {
    op.redispatchBoxed(rest, stack);
    return;
  }
  const Decomposition* decomposition =
      find_decomposition(op, c10::ArrayRef<IValue>(stack->data() + base, count));
  // Autocast first repeats a call on cast arguments: that second call is the region.
  const bool casts = !(rest & c10::autocast_dispatch_keyset).empty();
  const bool composite =
      !casts && op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
  if (decomposition == nullptr && (!r->with_regions || !composite)) {
    op.redispatchBoxed(rest, stack);
    return;
  }
  const std::vector<IValue> in(stack->begin() + static_cast<std::ptrdiff_t>(base), stack->end());
  if (decomposition != nullptr) {
    const Stack made = decomposition->function(in);
    stack->resize(base);
    stack->insert(stack->end(), made.begin(), made.end());
    return;
  }
  Region region{op, {}, {}, 0, 0, r->depth, false};
  for (const IValue& v : in) {
    const IValue inner = plain_value(v);
    std::lock_guard lock(r->mutex);
    region.arguments.push_back(r->read_argument(inner));
  }
  region.begin = static_cast<int32_t>(r->program.nodes.size());
  ++r->depth;
  struct Leave {
    int32_t& depth;
    ~Leave() { --depth; }
  } leave{r->depth};
  redispatch_composite(op, rest, stack);
  for (size_t i = base; i < stack->size(); ++i) {
    const IValue inner = plain_value((*stack)[i]);
    std::lock_guard lock(r->mutex);
    region.results.push_back(r->read_argument(inner));
  }
  for (size_t i = 0; i < in.size(); ++i) {
    const IValue inner = plain_value(in[i]);
    std::lock_guard lock(r->mutex);
    region.mutates |= r->read_argument(inner).values != region.arguments[i].values;
  }
  region.end = static_cast<int32_t>(r->program.nodes.size());
  if (region.begin < region.end) r->program.regions.push_back(std::move(region));
}

/// Above autograd: notes writes that autograd does not see; `note_composite` does the rest.
void note_call(const c10::OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  Recording* r = current();
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  if (r == nullptr || !r->with_regions || !r->keeps_grad_mode || arguments.empty()) {
    note_composite(op, keys, stack);
    return;
  }
  const UntrackedWrites writes(op, arguments, r->untracked);
  const IValue first = arguments[0];
  note_composite(op, keys, stack);
  writes.record();
  r->untracked.note_view(op, first, *stack);
}

/// A node's module: the prefix of the name of the first of its parameters or buffers that has one.
void name_modules(Program& program) {
  for (Node& node : program.nodes) {
    if (!node.origin.module.empty()) continue;
    for_each_value(node.arguments, [&](ValueId id) {
      const Value& v = program.value(id);
      if (v.role != Role::parameter && v.role != Role::buffer) return;
      const auto dot = v.name.rfind('.');
      if (dot != std::string::npos && node.origin.module.empty())
        node.origin.module = v.name.substr(0, dot);
    });
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(_, Fake, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&record_call>());
}
TORCH_LIBRARY_IMPL(_, DeferredInit, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&note_call>());
}

bool add_decomposition(Decomposition decomposition) { return enter(std::move(decomposition)); }

bool recording() { return current() != nullptr; }

at::Tensor recorded_constant(const Tensor& constant) {
  return recording() ? fz::to_functional_tensor(constant) : constant;
}

OriginScope::OriginScope(Origin origin) : active_(current() != nullptr) {
  if (!active_) return;
  previous_ = current()->origin;
  current()->origin = std::move(origin);
}

OriginScope::~OriginScope() {
  if (active_ && current() != nullptr) current()->origin = std::move(previous_);
}

size_t recorded_nodes() { return current() ? current()->program.nodes.size() : 0; }

void roll_back(size_t nodes) {
  if (Recording* r = current()) {
    std::lock_guard lock(r->mutex);
    r->program.nodes.erase(r->program.nodes.begin() + static_cast<std::ptrdiff_t>(nodes),
                           r->program.nodes.end());
  }
}

std::string first_recorded(size_t nodes,
                           const std::function<std::string(const Program&, const Node&)>& say) {
  Recording* r = current();
  if (r == nullptr) return "";
  std::lock_guard lock(r->mutex);
  for (size_t i = nodes; i < r->program.nodes.size(); ++i)
    if (std::string said = say(r->program, r->program.nodes[i]); !said.empty()) return said;
  return "";
}

bool recorded_are_held() {
  return std::ranges::any_of(last_results, [](const auto& result) { return !result.expired(); });
}

Program record(const std::vector<Binding>& bindings,
               const std::function<Tensors(const Tensors&)>& function, int64_t n) {
  if (recording())
    fail("[record] recording: got one inside another, expected none; try to compile beforehand");
  add_meta_kernels();
  auto r = std::make_shared<Recording>();
  r->with_regions = n == 0;
  r->keeps_grad_mode = at::GradMode::is_enabled();
  r->program.n = n;
  Tensors wrapped;
  std::vector<ValueId> ids;
  for (const Binding& b : bindings) {
    // A new handle, so that two bindings of one tensor stay two values.
    Tensor inner = b.tensor.detach();
    // Code of one model may address storage from its beginning, so its tensors get their own.
    if (n == 0 && inner.layout() == c10::kStrided && inner.storage_offset() != 0)
      inner = inner.clone();
    const ValueId id = r->fresh(inner, b.role, kOnBound);
    Value& v = r->program.value(id);
    v.name = b.name;
    v.wide = b.wide;
    r->program.bound.push_back(id);
    wrapped.push_back(fz::to_functional_tensor(inner));
    if (b.tensor.requires_grad()) wrapped.back().requires_grad_();
  }
  // oneDNN would compute an LSTM in one opaque operator.
  std::optional<OneDnnOff> one_dnn_off;
  if (n == 0) one_dnn_off.emplace();
  try {
    c10::DebugInfoGuard info(kInfo, r);
    fz::FunctionalizationReapplyViewsGuard reapply(true);
    c10::impl::IncludeDispatchKeyGuard fake(DispatchKey::Fake);
    c10::impl::IncludeDispatchKeyGuard functional(DispatchKey::Functionalize);
    c10::impl::IncludeDispatchKeyGuard composite(DispatchKey::DeferredInit);
    const Tensors outputs = function(wrapped);
    Tensors inners;  // views are regenerated here, with gradients
    for (const Tensor& t : outputs) inners.push_back(plain(t));
    at::NoGradGuard no_grad;
    for (const Tensor& inner : inners) {
      refuse_sparse_result(*r, "forward", inner);
      r->program.outputs.push_back(r->read(inner));
    }
    for (size_t i = 0; i < wrapped.size(); ++i) {
      const ValueId now = r->read(plain(wrapped[i]));
      if (now != r->program.bound[i]) r->program.updates.push_back({r->program.bound[i], now});
    }
    r->captured.refuse_changes();
  } catch (const std::exception&) {
    if (r->refusal) throw Error(*r->refusal);
    throw;
  }
  if (n == 0) last_results = std::move(r->weak);
  Program program = std::move(r->program);
  for (const Node& node : program.nodes) {  // wide: depends on a wide value, or is random
    bool wide = n > 0 && node.is_random();
    for_each_value(node.arguments, [&](ValueId id) { wide |= program.value(id).wide; });
    for_each_value(node.results, [&](ValueId id) { program.value(id).wide = wide; });
  }
  name_modules(program);
  program.remove_dead_nodes();
  program.verify();
  return program;
}

}  // namespace wide
