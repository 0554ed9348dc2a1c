#include "engine/train/optimizer/optimizer_operator.h"

#include "engine/error.h"

namespace wide {
namespace {
CallOptimizer registered_call = nullptr;
const char* registered_name = nullptr;
}  // namespace

bool is_optimizer_step(const Node& node) {
  return registered_name != nullptr && node.op.schema().operator_name().name == registered_name;
}

bool set_optimizer_operator(const char* name, CallOptimizer call) {
  registered_name = name;
  registered_call = call;
  return true;
}

Tensors optimizer_step(const Optimizer& optimizer, const Tensor& parameter, const Tensor& gradient,
                       const Tensors& state, const Tensor& hyper, int64_t step) {
  WIDE_ASSERT(registered_call != nullptr, "no operator does the steps of optimisers");
  return registered_call(optimizer, parameter, gradient, state, hyper, step);
}

}  // namespace wide
