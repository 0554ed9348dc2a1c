#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// `wide::lookup`: rows of each model's own table, tables `[N, V, D]` with contiguous rows, ids
/// `[N, ...]` of int64 or int32 -> `[N, ..., D]`. An index outside `[0, V)` is refused. float32 on
/// the CPU; its gradient is refused.
at::Tensor lookup(const at::Tensor& tables, const at::Tensor& ids);

}  // namespace wide
