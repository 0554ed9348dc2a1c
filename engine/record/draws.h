#pragma once
#include "engine/program.h"

namespace wide {

/// While it exists, random operators of this thread use a counter instead of a generator: random
/// numbers depend only on `seed`, `step`, the call's index and the element, so that each model has
/// its own, whatever runs beside it. A `dropout` >= 0 replaces all dropout probabilities. The
/// tensors are 0-d. Does not nest.
class DrawsByCounter {
 public:
  DrawsByCounter(Tensor seed, Tensor step, Tensor dropout);
  ~DrawsByCounter();
  DrawsByCounter(const DrawsByCounter&) = delete;
  DrawsByCounter& operator=(const DrawsByCounter&) = delete;

  Tensor seed, step, dropout;
  int64_t sites = 0;  // calls so far
};

/// This thread's; nullptr if there is none.
DrawsByCounter* draws_by_counter();

/// Calls a composite operator that is being recorded. cuDNN would compute a recurrent layer in one
/// opaque operator, whose dropout does not draw by counter and which has a gradient in training
/// mode alone: with draws by counter the layer's own calls are recorded instead.
void redispatch_composite(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                          std::vector<c10::IValue>* stack);

}  // namespace wide
