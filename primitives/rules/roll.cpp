// roll of a 0-d tensor is the tensor; functorch's rule would roll it over the models.
#include <ATen/ops/clone.h>

#include "engine/record/record.h"

namespace wide::roll_rules {
namespace {

bool is_number(c10::ArrayRef<IValue> in) { return in[0].toTensor().dim() == 0; }

// Arguments: self, shifts, dims.
void roll(Stack& stack) {
  const Tensor self = stack[stack.size() - 3].toTensor();
  stack.resize(stack.size() - 3);
  stack.emplace_back(self.clone());
}

[[maybe_unused]] const bool registered =
    add_decomposition({"aten::roll", "its batching rule mixes numbers of models", is_number, roll});

}  // namespace
}  // namespace wide::roll_rules
