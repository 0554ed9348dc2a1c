// Decompositions of norms that update running statistics without declaring it in their schema, into
// operators that declare it and that the norms' primitives claim.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::norms_rules {
namespace {

using In = c10::ArrayRef<IValue>;

Tensor tensor(const IValue& v) { return v.isTensor() ? v.toTensor() : Tensor(); }

/// Decomposes native_batch_norm and, `with_reserve`, _batch_norm_impl_index.
Stack batch_norm(In in, bool with_reserve) {
  Tensor mean = tensor(in[3]), var = tensor(in[4]);
  const Tensor x = tensor(in[0]);
  const auto [y, save_mean, save_invstd] = at::_native_batch_norm_legit(
      x, tensor(in[1]), tensor(in[2]), mean, var, true, in[6].toDouble(), in[7].toDouble());
  Stack made{y, save_mean, save_invstd};
  if (with_reserve)
    made.insert(made.end(), {at::empty({0}, x.options().dtype(at::kByte)), int64_t{0}});
  return made;
}

bool has_statistics(In in) { return in[3].isTensor() && in[3].toTensor().defined(); }

bool updates_statistics(In in) {
  return in[5].toBool() && has_statistics(in) && in[0].toTensor().numel() > 0;
}

/// instance_norm with running statistics: in eval mode it is a batch norm; in training they are
/// updated by the batch mean of all samples' statistics.
/// Arguments: x, weight, bias, running mean, running var, use_input_stats, momentum, eps, cudnn.
Stack instance_norm(In in) {
  const Tensor x = tensor(in[0]), weight = tensor(in[1]), bias = tensor(in[2]);
  Tensor mean = tensor(in[3]), var = tensor(in[4]);
  const double momentum = in[6].toDouble(), eps = in[7].toDouble();
  if (!in[5].toBool())
    return {at::batch_norm(x, weight, bias, mean, var, false, momentum, eps, false)};
  const Tensor y = at::instance_norm(x, weight, bias, {}, {}, true, momentum, eps, false);
  // No gradient flows through running statistics.
  const auto [batch_var, batch_mean] = at::var_mean(x.detach().flatten(2), {2}, /*unbiased=*/true);
  mean.copy_(mean * (1 - momentum) + batch_mean.mean(0) * momentum);
  var.copy_(var * (1 - momentum) + batch_var.mean(0) * momentum);
  return {y};
}

[[maybe_unused]] const bool registered[] = {
    add_decomposition({"aten::native_batch_norm",
                       "its schema hides the update of the running statistics", updates_statistics,
                       [](In in) { return batch_norm(in, false); }}),
    add_decomposition({"aten::_batch_norm_impl_index", "cuDNN's batch norm hides the same update",
                       updates_statistics, [](In in) { return batch_norm(in, true); }}),
    add_decomposition({"aten::instance_norm",
                       "it repeats the running statistics for every sample, then averages them",
                       has_statistics, instance_norm})};

}  // namespace
}  // namespace wide::norms_rules
