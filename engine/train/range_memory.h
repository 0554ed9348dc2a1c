#pragma once
#include <memory>

#include "engine/train/recompute.h"

namespace wide {

/// Memory of one thread: what it takes its ranges' rows into, and their results.
struct RangeMemory {
  Tensors taken;    // by bound value, [models at a time, ...]
  Tensors results;  // by result, the same
};

/// What runs so many models.
struct PlannedRange {
  std::shared_ptr<const RangeProgram> program;
  Recomputed recomputed;
};

}  // namespace wide
