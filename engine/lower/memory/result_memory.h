#pragma once
#include <array>

#include "engine/lower/executor.h"

namespace wide {

/// Memory for an executor's results: that of an earlier call, once the caller has released all of
/// its results. There are two blocks, so that results that are fed back as inputs need no third.
class ResultMemory {
 public:
  const Tensors& next(const Executor& executor);

 private:
  std::array<Tensors, 2> results_;
};

}  // namespace wide
