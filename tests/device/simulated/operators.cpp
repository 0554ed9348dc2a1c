// All operators that compute: what the CPU's kernel makes of them, queued.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <utility>

#include "engine/error.h"
#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

using at::Tensor;
using c10::IValue;
using Stack = torch::jit::Stack;

/// Sizes of what these give depend on their values: the host has to wait, as on any device.
const std::set<std::string>& data_dependent() {
  static const std::set<std::string> all = {
      "aten::nonzero",  "aten::masked_select",     "aten::_unique",
      "aten::_unique2", "aten::unique_dim",        "aten::unique_consecutive",
      "aten::bincount", "aten::repeat_interleave", "aten::unique_dim_consecutive"};
  return all;
}

/// Operators that have a kernel for meta tensors before the engine adds its own, which know sizes
/// only while it records.
std::set<std::string>& with_meta_kernel() {
  static std::set<std::string> all;
  return all;
}

bool is_write(const c10::AliasInfo* alias) { return alias != nullptr && alias->isWrite(); }

/// Its results lie in its arguments' memory: nothing is computed.
bool is_view_of(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument& r) {
    return r.alias_info() != nullptr && !r.alias_info()->isWrite();
  });
}

template <class Change>
IValue with_tensors(const IValue& v, const Change& change) {
  if (v.isTensor()) return v.toTensor().defined() ? IValue(change(v.toTensor())) : v;
  if (v.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& t : v.toTensorVector()) list.push_back(t.defined() ? change(t) : t);
    return list;
  }
  if (v.isList() && v.toListRef().size() > 0 && v.type()->str() == "Tensor?[]") {
    c10::List<std::optional<Tensor>> list;
    for (const IValue& one : v.toListRef())
      list.push_back(one.isTensor() && one.toTensor().defined()
                         ? std::optional(change(one.toTensor()))
                         : std::nullopt);
    return list;
  }
  return v;
}

/// The CPU's random numbers for as long as it lives, for kernels that take no generator.
class CpuNumbers {
 public:
  explicit CpuNumbers(const Draw& draw)
      : generator_(at::detail::getDefaultCPUGenerator()), before_(generator_.get_state()) {
    generator_.set_state(cpu_generator(draw.seed, draw.offset).get_state());
  }
  ~CpuNumbers() { generator_.set_state(before_); }
  CpuNumbers(const CpuNumbers&) = delete;
  CpuNumbers& operator=(const CpuNumbers&) = delete;

 private:
  at::Generator generator_;
  Tensor before_;
};

class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack arguments)
      : op_(op), schema_(op.schema()), arguments_(std::move(arguments)) {
    replacement_ = replacement_of(op);
    for (size_t i = 0; i < arguments_.size(); ++i) note(i);
  }

  Stack run() {
    const bool sized = data_dependent().count(schema_.name()) == 0 && !by_mask_;
    const bool tensors =
        std::all_of(schema_.returns().begin(), schema_.returns().end(), [](const c10::Argument& r) {
          return r.type()->str() == "Tensor" || r.type()->str() == "Tensor[]";
        });
    return sized && tensors ? queued() : waited_for();
  }

 private:
  std::string name_of(size_t i) const { return fmt::format("{} argument {}", schema_.name(), i); }

  void note(size_t i) {
    IValue& v = arguments_[i];
    const bool write = is_write(schema_.arguments()[i].alias_info());
    if (v.isGenerator()) {
      const at::Generator given = v.toGenerator();
      if (!given.defined()) return;
      generator_ = c10::intrusive_ptr<DeviceGenerator>::reclaim_copy(given.get<DeviceGenerator>());
      return;
    }
    with_tensors(v, [&](const Tensor& t) {
      if (t.device() == kDevice) {
        const Access access = access_of(t, write, name_of(i));
        if (access.end > 0) accesses_.push_back(access);
        by_mask_ |= schema_.name() == "aten::index" && i > 0 &&
                    (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte);
      } else if (!t.is_cpu() || t.dim() > 0 || write) {
        const std::string fault =
            fmt::format("devices mixed: {} is on {}", name_of(i), t.device().str());
        Streams::get().violate(fault);
        TORCH_CHECK(false, "[simulated] ", fault);
      }
      return t;
    });
  }

  /// The arguments with other tensors, on that device.
  template <class Change>
  Stack with(c10::Device device, const Change& change) const {
    Stack stack;
    for (const IValue& v : arguments_) {
      if (v.isDevice())
        stack.emplace_back(device);
      else if (v.isGenerator())
        stack.emplace_back();
      else
        stack.push_back(with_tensors(v, change));
    }
    return stack;
  }

  static void keep_number(const Tensor& from, const Tensor& to) {
    if (from.unsafeGetTensorImpl()->is_wrapped_number())
      to.unsafeGetTensorImpl()->set_wrapped_number(true);
  }

  /// `kept`: LibTorch lets go of arguments before it returns several results that lie in them.
  void call(Stack& stack) const {
    const Stack kept = stack;
    if (!replacement_) return op_.callBoxed(&stack);
    (*replacement_)(stack);
  }

  /// What the operator gives, without values.
  Stack shapes() const {
    const auto empty_like = [](c10::Device device) {
      return [device](const Tensor& t) {
        const auto options = at::TensorOptions().dtype(t.scalar_type()).device(device);
        if (device.is_cpu() && t.is_cpu()) return t;
        Tensor other = at::empty_strided(t.sizes(), t.strides(), options);
        if (device.is_cpu() && t.numel() > 0)
          std::memset(other.data_ptr(), 0, other.storage().nbytes());
        keep_number(t, other);
        return other;
      };
    };
    if (!replacement_ && with_meta_kernel().count(c10::toString(op_.operator_name())) > 0) {
      Stack stack = with(c10::kMeta, empty_like(c10::kMeta));
      const Stack kept = stack;  // as in `call`
      try {
        op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
        return stack;
      } catch (const c10::NotImplementedError&) {
        // It calls another one that has no such kernel.
      }
    }
    Stack stack = with(c10::kCPU, empty_like(c10::kCPU));
    std::optional<CpuNumbers> numbers;
    if (op_.hasTag(at::Tag::nondeterministic_seeded)) numbers.emplace(Draw{});
    call(stack);
    return stack;
  }

  /// The argument that result `r` is, where it is one.
  std::optional<size_t> argument_of(size_t r) const {
    const c10::AliasInfo* alias = schema_.returns()[r].alias_info();
    if (!is_write(alias)) return std::nullopt;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const c10::AliasInfo* own = schema_.arguments()[i].alias_info();
      if (own && own->beforeSets() == alias->beforeSets()) return i;
    }
    WIDE_ASSERT(false, "no argument for a result");
  }

  Tensor made(const Tensor& like, size_t r) {
    if (!like.defined()) return {};
    Tensor t = empty_on_device(like.sizes(), like.strides(), like.scalar_type());
    const Access access = access_of(t, true, fmt::format("{} result {}", schema_.name(), r));
    if (access.end > 0) accesses_.push_back(access);
    fresh_.push_back(shadow_of(t));
    return t;
  }

  /// Results that lie in arguments, or new ones of the right sizes.
  Stack results() {
    const Stack like = shapes();
    Stack out;
    for (size_t r = 0; r < schema_.returns().size(); ++r) {
      if (const auto i = argument_of(r)) {
        const IValue& v = arguments_[*i];
        if (v.isTensor() && v.toTensor().sizes() != like[r].toTensor().sizes()) {
          v.toTensor().resize_(like[r].toTensor().sizes());
          accesses_.push_back(access_of(v.toTensor(), true, name_of(*i)));
        }
        out.push_back(v);
        continue;
      }
      if (like[r].isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor& t : like[r].toTensorVector()) list.push_back(made(t, r));
        out.emplace_back(list);
      } else {
        out.emplace_back(made(like[r].toTensor(), r));
      }
    }
    return out;
  }

  static Tensor as_seen_by_kernels(const Tensor& t) {
    if (t.device() != kDevice) {
      const Tensor kept = t.clone();
      keep_number(t, kept);
      return kept;
    }
    const Tensor shadow = shadow_of(t);
    keep_number(t, shadow);
    return shadow;
  }

  Stack queued() {
    Stack out = results();
    Launch launch;
    launch.name = schema_.name();
    launch.accesses = accesses_;
    std::optional<size_t> generator_at;
    if (op_.hasTag(at::Tag::nondeterministic_seeded)) {
      if (!generator_)
        generator_ = c10::intrusive_ptr<DeviceGenerator>::reclaim_copy(
            default_generator().get<DeviceGenerator>());
      launch.draws_from = generator_;
      for (size_t i = 0; i < schema_.arguments().size(); ++i)
        if (schema_.arguments()[i].type()->str().rfind("Generator", 0) == 0) generator_at = i;
    }
    const Stack seen = with(c10::kCPU, as_seen_by_kernels);
    // Addresses, sizes and strides are all that the work takes. The arguments live until it is
    // queued: nobody else may hold them.
    const Stack held = std::exchange(arguments_, {});
    launch.work = [self = *this, seen, generator_at,
                   draws = launch.draws_from != nullptr](const Draw& draw) {
      Stack now = seen;
      std::optional<CpuNumbers> numbers;
      if (generator_at)
        now[*generator_at] = cpu_generator(draw.seed, draw.offset);
      else if (draws)
        numbers.emplace(draw);
      self.call(now);
      self.keep(now);
    };
    if (!launch.accesses.empty()) Streams::get().launch(std::move(launch));
    return out;
  }

  /// Copies new results to where they are expected.
  void keep(const Stack& given) const {
    size_t k = 0;
    const auto put = [&](const Tensor& t) {
      if (!t.defined()) return;
      WIDE_ASSERT(k < fresh_.size() && fresh_[k].sizes() == t.sizes(), "a result of another size");
      Tensor(fresh_[k++]).copy_(t);
    };
    for (size_t r = 0; r < given.size(); ++r) {
      if (is_write(schema_.returns()[r].alias_info())) continue;
      if (given[r].isTensorList())
        for (const Tensor& t : given[r].toTensorVector()) put(t);
      else
        put(given[r].toTensor());
    }
  }

  Stack waited_for() const {
    Streams::get().refuse_in_capture("a result read by the host: " + schema_.name());
    Launch launch{schema_.name(), accesses_, [](const Draw&) {}};
    if (!launch.accesses.empty()) Streams::get().launch(std::move(launch));
    Streams::get().synchronize(Streams::current());
    Stack stack = with(c10::kCPU, as_seen_by_kernels);
    call(stack);
    for (size_t r = 0; r < stack.size(); ++r) {
      if (const auto i = argument_of(r))
        stack[r] = arguments_[*i];
      else
        stack[r] = with_tensors(stack[r], [](const Tensor& t) { return t.to(kDevice); });
    }
    return stack;
  }

  c10::OperatorHandle op_;
  const c10::FunctionSchema& schema_;
  Stack arguments_;
  Replacement replacement_ = nullptr;
  std::vector<Access> accesses_;
  std::vector<Tensor> fresh_;
  c10::intrusive_ptr<DeviceGenerator> generator_ = {};
  bool by_mask_ = false;
};

void run_on_device(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const PlainDispatch plain;
  const size_t base = stack->size() - op.schema().arguments().size();
  if (is_view_of(op.schema()) || op.schema().name() == "aten::set_") {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    return;
  }
  Stack arguments(stack->begin() + static_cast<std::ptrdiff_t>(base), stack->end());
  stack->resize(base);
  for (IValue& v : Call(op, std::move(arguments)).run()) stack->push_back(std::move(v));
}

}  // namespace

void register_operators(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || name.name.rfind("aten::", 0) != 0) continue;
    if (op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    if (op->hasKernelForDispatchKey(c10::DispatchKey::Meta))
      with_meta_kernel().insert(c10::toString(name));
    const bool replaced = replacement_of(*op) != nullptr;
    const bool own = op->hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
                     !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    if (!own && !replaced) continue;
    const std::string full =
        name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_device>());
  }
}

}  // namespace wide::simulated
