#include "engine/record/dry/meta_kernels.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "engine/record/record.h"

namespace wide {
namespace {

/// A backend without kernels of its own: its calls reach the kernels that all backends share.
constexpr auto kAnyBackend = c10::DispatchKey::Metal;

/// Returns the tensors that the call would write to. Outside recordings a call behaves as if this
/// kernel did not exist.
void untouched(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  if (!recording()) {
    TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(kAnyBackend),
                                schema.operator_name(), " has no meta kernel");
    op.redispatchBoxed(c10::DispatchKeySet(kAnyBackend), stack);
    return;
  }
  const size_t base = stack->size() - schema.arguments().size();
  std::vector<c10::IValue> results;
  for (const c10::Argument& result : schema.returns())
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      if (alias && alias->isWrite() && alias->beforeSets() == result.alias_info()->beforeSets()) {
        results.push_back((*stack)[base + i]);
        break;
      }
    }
  stack->resize(base);
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

/// Whether an operator writes all its results and has no meta kernel. Kernels that all backends
/// share do not count, as they may call an operator without one.
bool lacks_meta_kernel(const c10::OperatorHandle& op) {
  if (!op.hasSchema() || op.operator_name().name.rfind("aten::", 0) != 0) return false;
  const auto& returns = op.schema().returns();
  const bool writes = std::ranges::all_of(
      returns, [](const c10::Argument& r) { return r.alias_info() && r.alias_info()->isWrite(); });
  return op.schema().is_mutable() && !returns.empty() && writes &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::Meta);
}

}  // namespace

void add_meta_kernels() {
  static const auto library = [] {
    auto made = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                                 c10::DispatchKey::Meta, __FILE__, __LINE__);
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      const auto op = dispatcher.findOp(name);
      if (!op || !lacks_meta_kernel(*op)) continue;
      const std::string full =
          name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
      made->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&untouched>());
    }
    return made;
  }();
}

}  // namespace wide
