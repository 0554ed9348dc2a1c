#pragma once
#include <array>

#include "engine/lower/executor.h"

namespace wide {

/// Memory for an executor's results. A block is reused once the caller has released all results of
/// the call that it was used for. Two blocks suffice where results are fed back as inputs.
class ResultMemory {
 public:
  /// Tensors for the results of one call: an unused block, else a new one. Those that the executor
  /// gives are undefined. Results of all executors must have the same sizes and dtypes.
  const Tensors& next(const Executor& executor);

 private:
  static const Tensors& fitted(Tensors& results, const Executor& executor);
  std::array<Tensors, 2> results_;
};

}  // namespace wide
