#pragma once
#include "engine/train/trainer.h"

namespace wide {

/// A model's rows of a batch's column, as its values are in the file.
Tensor batch_rows(const Column& column, int64_t model);

/// Whether nothing in a model's batch counts: all is ignored, or has weight 0 by row or class. Its
/// loss is 0 / 0, as PyTorch's is.
bool counts_for_nothing(const Loss& loss, const Batch& batch, int64_t model);

}  // namespace wide
