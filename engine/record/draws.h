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

}  // namespace wide
