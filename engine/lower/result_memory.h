#pragma once
#include <array>

#include "engine/lower/executor.h"

namespace wide {

/// Memory for an executor's results: that of an earlier call when the caller has let go of all of
/// it. Two of them, so that a caller who feeds results back as inputs does not ask for new memory.
class ResultMemory {
 public:
  const Tensors& next(const Executor& executor);

 private:
  std::array<Tensors, 2> results_;
};

}  // namespace wide
