#pragma once
#include "engine/lower/executor.h"

namespace wide {

/// Reduces what a step's program, after the passes, keeps between its two halves. The nodes up to
/// its first output, the loss, are split into `segments` consecutive segments with about equal
/// bytes that the gradients read. Values that cross from one segment to the next are kept; others
/// that the gradients read are recomputed, just before the first reader of the segment. The last
/// segment is kept, as its gradients come first. (Chen et al. 2016, Training Deep Nets with
/// Sublinear Memory Cost.) Calls and their arguments are the same, and so are the resulting bits.
/// Returns the number of recomputed calls.
int64_t recompute(RangeProgram& range, int64_t segments);

struct Recomputed {
  int64_t calls = 0;        // recomputed
  int64_t saved_bytes = 0;  // of the arena
};

/// Recomputes with the fewest segments that bring the arena of `range` to `most` bytes, or else
/// with those of the smallest arena. Does nothing if the arena fits already or nothing helps.
Recomputed fit_arena(RangeProgram& range, int64_t most);

}  // namespace wide
