#pragma once
#include <memory>

#include "engine/lower/executor.h"
#include "engine/train/recompute.h"

namespace wide {

/// Memory of one thread: what it takes its ranges' rows into, and their results.
struct RangeMemory {
  int64_t models = 0;  // at a time
  Tensors taken;       // by bound value, [models, ...]
  Tensors results;     // by result, the same
};

/// What runs so many models.
struct PlannedRange {
  std::shared_ptr<const RangeProgram> program;
  Recomputed recomputed;
};

}  // namespace wide
