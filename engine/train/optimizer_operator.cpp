#include "engine/train/optimizer_operator.h"

#include "engine/error.h"

namespace wide {
namespace {
CallOptimizer registered_call = nullptr;
}  // namespace

bool set_optimizer_operator(CallOptimizer call) {
  registered_call = call;
  return true;
}

Tensors optimizer_step(const Optimizer& optimizer, const Tensor& parameter, const Tensor& gradient,
                       const Tensors& state, const Tensor& hyper, int64_t step) {
  WIDE_ASSERT(registered_call != nullptr, "no operator does the steps of optimisers");
  return registered_call(optimizer, parameter, gradient, state, hyper, step);
}

}  // namespace wide
