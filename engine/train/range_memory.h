#pragma once
#include <memory>

#include "engine/lower/executor.h"
#include "engine/train/recompute.h"

namespace wide {

/// Memory of one thread: gathered rows of its ranges, and their results.
struct RangeMemory {
  int64_t models = 0;  // models at a time
  Tensors taken;       // gathered, by bound value: [models, ...]
  Tensors results;     // by result: [models, ...]
};

/// The program for ranges of a number of models.
struct PlannedRange {
  std::shared_ptr<const RangeProgram> program;
  Recomputed recomputed;
};

}  // namespace wide
