#pragma once
#include "engine/train/trainer.h"

namespace wide {

/// One model's rows of a column of a batch, not normalised.
Tensor batch_rows(const Column& column, int64_t model);

/// Whether no row of a model's batch counts: each is ignored (ignore_index) or has weight 0, by row
/// or class. Its loss is then 0 / 0, as in PyTorch.
bool counts_for_nothing(const Loss& loss, const Batch& batch, int64_t model);

}  // namespace wide
