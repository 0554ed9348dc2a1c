// Decompositions of single operators that cannot be recorded, or made wide, as they are.
#include <ATen/ATen.h>

#include "engine/record/record.h"

namespace wide::decomposition_rules {
namespace {

using In = c10::ArrayRef<IValue>;

// Arguments: classes, their number (-1: from the data). one_hot reads the classes to refuse invalid
// ones. With a given number of classes, comparing gives the same result.
Stack one_hot(In in) {
  const Tensor index = in[0].toTensor();
  return {index.unsqueeze(-1).eq(at::arange(in[1].toInt(), index.options())).to(at::kLong)};
}

// Arguments: self, indices or the number of sections, dim.
Stack tensor_split(In in) {
  const Tensor self = in[0].toTensor(), cuts = in[1].toTensor();
  const int64_t dim = in[2].toInt();
  if (cuts.dim() == 0) return {self.tensor_split(cuts.item<int64_t>(), dim)};
  Sizes indices;
  for (int64_t i = 0; i < cuts.numel(); ++i) indices.push_back(cuts[i].item<int64_t>());
  return {self.tensor_split(indices, dim)};
}

// Arguments: size, dtype, layout, device, pin_memory. As in gradients of sgn.
Stack zeros(In in) {
  return {at::zeros(in[0].toIntVector(), in[1].toOptional<at::ScalarType>(), std::nullopt,
                    in[3].toOptional<c10::Device>(), std::nullopt)};
}

[[maybe_unused]] const bool registered[] = {
    add_decomposition({"aten::one_hot", "it looks at its classes to refuse them",
                       [](In in) { return in[1].toInt() > 0; }, one_hot}),
    // functorch's rule would roll a number over the models; its roll is the number itself.
    add_decomposition({"aten::roll", "its batching rule mixes numbers of models",
                       [](In in) { return in[0].toTensor().dim() == 0; },
                       [](In in) { return Stack{in[0].toTensor().clone()}; }}),
    add_decomposition({"aten::tensor_split", "it reads where to cut from memory",
                       [](In in) { return in[1].isTensor(); }, tensor_split}),
    add_decomposition({"aten::_efficientzerotensor", "its result has no memory", nullptr, zeros})};

}  // namespace
}  // namespace wide::decomposition_rules
