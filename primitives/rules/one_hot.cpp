// one_hot looks at the values to refuse invalid classes, which cannot be recorded. Where
// num_classes is given, a comparison with arange(num_classes) gives the same result.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::one_hot_rules {
namespace {

// Arguments: classes, their number (-1: from the data).
bool count_is_known(c10::ArrayRef<IValue> in) { return in[1].toInt() > 0; }

void one_hot(Stack& stack) {
  const int64_t classes = stack.back().toInt();
  stack.pop_back();
  const Tensor index = stack.back().toTensor();
  stack.back() = index.unsqueeze(-1).eq(at::arange(classes, index.options())).to(at::kLong);
}

[[maybe_unused]] const bool registered = add_decomposition(
    {"aten::one_hot", "it looks at its classes to refuse them", count_is_known, one_hot});

}  // namespace
}  // namespace wide::one_hot_rules
