#pragma once
#include "engine/lower/executor.h"

namespace wide {

/// Lets a step's program, after the passes, keep less between its two halves. The nodes up to its
/// first output, the loss, fall into `segments` parts in a row, of like bytes that the gradients
/// read. What goes from one part to the next stays; what else the gradients read of a part is
/// computed a second time, just before the first of them that reads any of it. The last part stays
/// whole: its gradients come at once. (Chen et al. 2016, Training Deep Nets with Sublinear Memory
/// Cost.) The calls, and what they read, are the same, and so are their bits. Returns how many
/// calls are made a second time.
int64_t recompute(RangeProgram& range, int64_t segments);

struct Recomputed {
  int64_t calls = 0;        // made a second time
  int64_t saved_bytes = 0;  // of the arena
};

/// The same by the fewest segments that bring the arena of `range` to `most` bytes; where none
/// does, by those with the smallest. Nothing where it fits as it is, or nothing helps.
Recomputed fit_arena(RangeProgram& range, int64_t most);

}  // namespace wide
