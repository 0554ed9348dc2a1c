#pragma once
#include <optional>

#include "engine/program.h"

namespace wide {

/// While it lives, random operators that this thread calls draw by a counter instead of a
/// generator: what an element gets depends on `seed`, `step` and the place of the call alone, so
/// that each model has its own numbers, wherever and beside whomever it runs. `dropout` not below 0
/// stands for every probability of dropout. The tensors are numbers `[]`. Does not nest.
class DrawsByCounter {
 public:
  DrawsByCounter(Tensor seed, Tensor step, Tensor dropout);
  ~DrawsByCounter();
  DrawsByCounter(const DrawsByCounter&) = delete;
  DrawsByCounter& operator=(const DrawsByCounter&) = delete;

  Tensor seed, step, dropout;
  int64_t sites = 0;  // calls so far
};

/// Of this thread; null where there is none.
DrawsByCounter* draws_by_counter();

}  // namespace wide
