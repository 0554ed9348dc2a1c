// Weight normalisation, w = g v / |v| with a norm along all but one dimension (Salimans and Kingma,
// 2016; torch.nn.utils.parametrizations.weight_norm): its fused operator has no batching rule.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::weight_norm_rules {
namespace {

/// v, g, dim -> w, norms.
Stack weight_norm(c10::ArrayRef<IValue> in) {
  const Tensor v = in[0].toTensor(), norms = at::norm_except_dim(v, 2, in[2].toInt());
  return {v * (in[1].toTensor() / norms), norms};
}

[[maybe_unused]] const bool registered =
    add_decomposition({"aten::_weight_norm_interface", "it has no batching rule", {}, weight_norm});

}  // namespace
}  // namespace wide::weight_norm_rules
