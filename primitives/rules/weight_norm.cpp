// Weight normalisation, w = g v / |v| with a norm along all but one dimension (Salimans and Kingma,
// 2016; torch.nn.utils.parametrizations.weight_norm): its fused operator has no batching rule.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::weight_norm_rules {
namespace {

/// v, g, dim -> w, norms.
void weight_norm(Stack& stack) {
  const int64_t dim = stack.back().toInt();
  const Tensor v = (stack.end() - 3)->toTensor(), g = (stack.end() - 2)->toTensor();
  const Tensor norms = at::norm_except_dim(v, 2, dim);
  stack.resize(stack.size() - 3);
  stack.emplace_back(v * (g / norms));
  stack.emplace_back(norms);
}

[[maybe_unused]] const bool registered =
    add_decomposition({"aten::_weight_norm_interface", "it has no batching rule", {}, weight_norm});

}  // namespace
}  // namespace wide::weight_norm_rules
