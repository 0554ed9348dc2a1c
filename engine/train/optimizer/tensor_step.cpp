#include "engine/train/optimizer/tensor_step.h"

#include <ATen/ATen.h>

namespace wide {

at::Tensor TensorStep::number(int64_t k) const { return hyper.select(-1, k); }

at::Tensor TensorStep::beside(const at::Tensor& numbers) const {
  std::vector<int64_t> sizes(hyper.dim() == 2 ? static_cast<size_t>(parameter.dim()) : 0, 1);
  if (!sizes.empty()) sizes[0] = hyper.size(0);
  return numbers.to(parameter.scalar_type()).view(sizes);
}

at::Tensor TensorStep::to_the_step(const at::Tensor& number) const {
  return steps.defined() ? number.pow(steps) : number.pow(static_cast<double>(step));
}

at::Tensor TensorStep::at_first(const at::Tensor& first, const at::Tensor& later) const {
  if (steps.defined()) return at::where(beside(steps) == 1, first, later);
  return step == 1 ? first : later;
}

}  // namespace wide
