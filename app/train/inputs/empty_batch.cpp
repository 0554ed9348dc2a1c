#include "app/train/inputs/empty_batch.h"

#include <ATen/ATen.h>

namespace wide {

Tensor batch_rows(const Column& column, int64_t model) {
  const Tensor values = column.shared ? column.values : column.values[model];
  if (!column.rows.defined()) return values.clone();
  return values.index_select(0, column.rows.dim() == 2 ? column.rows[model] : column.rows);
}

bool counts_for_nothing(const Loss& loss, const Batch& batch, int64_t model) {
  Tensor counts = at::ones({1}, at::kBool);
  if (batch.weight.values.defined()) counts = batch_rows(batch.weight, model).gt(0);
  if (loss.classifies() && batch.target.values.defined()) {
    const Tensor target = batch_rows(batch.target, model);
    Tensor there = target.ne(loss.ignore_index);
    if (loss.weight.defined()) {
      const Tensor weight = loss.weight.dim() > 1 ? loss.weight[model] : loss.weight;
      const Tensor of = weight.index_select(0, target.clamp(0, weight.size(0) - 1).reshape({-1}));
      there = there.logical_and(of.gt(0).view(target.sizes()));
    }
    counts = there.reshape({there.size(0), -1}).any(1).logical_and(counts);
  }
  return !counts.any().item<bool>();
}

}  // namespace wide
