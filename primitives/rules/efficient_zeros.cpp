// aten::_efficientzerotensor, as in gradients of sgn, has no memory: it is recorded as zeros.
#include <ATen/ops/zeros.h>

#include "engine/record/record.h"

namespace wide::efficient_zeros_rules {
namespace {

// Arguments: size, dtype, layout, device, pin_memory.
void zeros(Stack& stack) {
  const auto in = c10::ArrayRef<IValue>(stack).slice(stack.size() - 5);
  const Tensor made = at::zeros(in[0].toIntVector(), in[1].toOptional<at::ScalarType>(),
                                std::nullopt, in[3].toOptional<c10::Device>(), std::nullopt);
  stack.resize(stack.size() - 5);
  stack.emplace_back(made);
}

[[maybe_unused]] const bool registered =
    add_decomposition({"aten::_efficientzerotensor", "its result has no memory", nullptr, zeros});

}  // namespace
}  // namespace wide::efficient_zeros_rules
