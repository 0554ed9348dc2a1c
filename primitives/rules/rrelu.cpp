// rrelu(x) = x where x > 0, else slope * x. In training the slope is drawn from [lower, upper];
// otherwise it is their mean. functorch has no batching rule for it, so outside training the
// recorder replaces it by leaky_relu, which has one. For training see draws.cpp; where that does
// not apply, rrelu runs model by model.
#include <ATen/ATen.h>

#include "engine/record/record.h"

namespace wide::rrelu_rules {
namespace {

Tensor leaky(const IValue& x, const IValue& lower, const IValue& upper) {
  const double slope = (lower.toScalar().toDouble() + upper.toScalar().toDouble()) / 2;
  return at::leaky_relu(x.toTensor(), slope);
}

// Arguments on the stack: self, lower, upper, training, generator.
void rrelu(Stack& stack) {
  const auto in = c10::ArrayRef<IValue>(stack).slice(stack.size() - 5);
  const Tensor y = leaky(in[0], in[1], in[2]);
  stack.resize(stack.size() - 5);
  stack.emplace_back(y);
}

// Arguments: self, noise, lower, upper, training, generator. Also returns the noise, unchanged.
void rrelu_with_noise(Stack& stack) {
  const auto in = c10::ArrayRef<IValue>(stack).slice(stack.size() - 6);
  const Tensor y = leaky(in[0], in[2], in[3]), noise = in[1].toTensor();
  stack.resize(stack.size() - 6);
  stack.emplace_back(y);
  stack.emplace_back(noise);
}

[[maybe_unused]] const bool registered[] = {
    add_decomposition({"aten::rrelu", "it has no batching rule",
                       [](c10::ArrayRef<IValue> in) { return !in[3].toBool(); }, rrelu}),
    add_decomposition({"aten::rrelu_with_noise_functional", "it has no batching rule",
                       [](c10::ArrayRef<IValue> in) { return !in[4].toBool(); },
                       rrelu_with_noise})};

}  // namespace
}  // namespace wide::rrelu_rules
