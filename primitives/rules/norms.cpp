// Decompositions of norms that update running statistics without declaring it in their schema, into
// operators that declare it and that the norms' primitives claim.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::norms_rules {
namespace {

/// The last `count` values of the stack as a call's arguments.
struct Call {
  Stack& stack;
  size_t count;
  IValue& operator[](size_t i) const { return stack[stack.size() - count + i]; }
  Tensor tensor(size_t i) const { return (*this)[i].isTensor() ? (*this)[i].toTensor() : Tensor(); }
  void leave(std::initializer_list<IValue> results) const {
    stack.resize(stack.size() - count);
    stack.insert(stack.end(), results);
  }
};

/// Decomposes native_batch_norm and, `with_reserve`, _batch_norm_impl_index.
void batch_norm(Stack& stack, size_t arguments, bool with_reserve) {
  const Call call{stack, arguments};
  Tensor mean = call.tensor(3), var = call.tensor(4);
  const Tensor x = call.tensor(0);
  const auto [y, save_mean, save_invstd] = at::_native_batch_norm_legit(
      x, call.tensor(1), call.tensor(2), mean, var, true, call[6].toDouble(), call[7].toDouble());
  if (with_reserve)
    call.leave(
        {y, save_mean, save_invstd, at::empty({0}, x.options().dtype(at::kByte)), int64_t{0}});
  else
    call.leave({y, save_mean, save_invstd});
}

bool has_statistics(c10::ArrayRef<IValue> in) {
  return in[3].isTensor() && in[3].toTensor().defined();
}

bool updates_statistics(c10::ArrayRef<IValue> in) {
  return in[5].toBool() && has_statistics(in) && in[0].toTensor().numel() > 0;
}

/// instance_norm with running statistics: in eval mode it is a batch norm; in training they are
/// updated by the batch mean of all samples' statistics.
void instance_norm(Stack& stack) {
  const Call call{stack, 9};  // x, weight, bias, running mean, running var, use_input_stats,
                              // momentum, eps, cudnn
  const Tensor x = call.tensor(0), weight = call.tensor(1), bias = call.tensor(2);
  Tensor mean = call.tensor(3), var = call.tensor(4);
  const double momentum = call[6].toDouble(), eps = call[7].toDouble();
  if (!call[5].toBool()) {
    call.leave({at::batch_norm(x, weight, bias, mean, var, false, momentum, eps, false)});
    return;
  }
  const Tensor y = at::instance_norm(x, weight, bias, {}, {}, true, momentum, eps, false);
  // No gradient flows through running statistics.
  const auto [batch_var, batch_mean] = at::var_mean(x.detach().flatten(2), {2}, /*unbiased=*/true);
  mean.copy_(mean * (1 - momentum) + batch_mean.mean(0) * momentum);
  var.copy_(var * (1 - momentum) + batch_var.mean(0) * momentum);
  call.leave({y});
}

[[maybe_unused]] const bool registered[] = {
    add_decomposition({"aten::native_batch_norm",
                       "its schema hides the update of the running statistics", updates_statistics,
                       [](Stack& stack) { batch_norm(stack, 8, false); }}),
    add_decomposition({"aten::_batch_norm_impl_index", "cuDNN's batch norm hides the same update",
                       updates_statistics, [](Stack& stack) { batch_norm(stack, 9, true); }}),
    add_decomposition({"aten::instance_norm",
                       "it repeats the running statistics for every sample, then averages them",
                       has_statistics, instance_norm})};

}  // namespace
}  // namespace wide::norms_rules
