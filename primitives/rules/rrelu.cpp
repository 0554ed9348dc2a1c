// rrelu(x) = x where x > 0, else slope * x. In training the slope is drawn from [lower, upper];
// otherwise it is their mean. functorch has no batching rule for it, so outside training the
// recorder replaces it by leaky_relu, which has one. For training see draws.cpp; where that does
// not apply, rrelu runs model by model.
#include <ATen/ATen.h>

#include "engine/record/record.h"

namespace wide::rrelu_rules {
namespace {

using In = c10::ArrayRef<IValue>;

Tensor leaky(const IValue& x, const IValue& lower, const IValue& upper) {
  const double slope = (lower.toScalar().toDouble() + upper.toScalar().toDouble()) / 2;
  return at::leaky_relu(x.toTensor(), slope);
}

[[maybe_unused]] const bool registered[] = {
    // Arguments: self, lower, upper, training, generator.
    add_decomposition({"aten::rrelu", "it has no batching rule",
                       [](In in) { return !in[3].toBool(); },
                       [](In in) { return Stack{leaky(in[0], in[1], in[2])}; }}),
    // Arguments: self, noise, lower, upper, training, generator. Also returns the noise, unchanged.
    add_decomposition({"aten::rrelu_with_noise_functional", "it has no batching rule",
                       [](In in) { return !in[4].toBool(); },
                       [](In in) {
                         return Stack{leaky(in[0], in[2], in[3]), in[1]};
                       }})};

}  // namespace
}  // namespace wide::rrelu_rules
