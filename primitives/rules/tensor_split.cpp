// tensor_split with a tensor of indices reads it from memory, which a recording does not see. So it
// is recorded with the indices as numbers.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::tensor_split_rules {
namespace {

// Arguments: self, indices or the number of sections, dim.
bool cuts_by_tensor(c10::ArrayRef<IValue> in) { return in[1].isTensor(); }

void tensor_split(Stack& stack) {
  const int64_t dim = stack[stack.size() - 1].toInt();
  const Tensor cuts = stack[stack.size() - 2].toTensor(), self = stack[stack.size() - 3].toTensor();
  stack.resize(stack.size() - 3);
  if (cuts.dim() == 0) {
    stack.emplace_back(self.tensor_split(cuts.item<int64_t>(), dim));
    return;
  }
  Sizes indices;
  for (int64_t i = 0; i < cuts.numel(); ++i) indices.push_back(cuts[i].item<int64_t>());
  stack.emplace_back(self.tensor_split(indices, dim));
}

[[maybe_unused]] const bool registered = add_decomposition(
    {"aten::tensor_split", "it reads where to cut from memory", cuts_by_tensor, tensor_split});

}  // namespace
}  // namespace wide::tensor_split_rules
