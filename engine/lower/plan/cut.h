#pragma once
#include "engine/lower/executor.h"

namespace wide {

/// A value of the first half that the second one reads.
struct SavedValue {
  Value value;          // as both halves have it
  int64_t output = -1;  // the result of the first half that holds just this, or -1
};

/// Both halves of a program of forward pass and gradients.
struct Halves {
  /// Returns the outputs, what is saved in no output, then the updates. Bound as the whole.
  std::shared_ptr<const RangeProgram> forward;
  /// Bound as the whole, then to what is saved. Returns the gradients.
  std::shared_ptr<const RangeProgram> backward;
  std::vector<SavedValue> saved;
  /// By bound value of the whole: whether the second half reads it, or a copy of it that was saved.
  std::vector<bool> reads;
};

/// Cuts a program whose first `outputs` results are those of the forward pass and whose others are
/// gradients, of which those with `keep` are wanted. The first half is what outputs and updates
/// need, and every draw of random numbers; the second is the rest. What is saved are results of
/// calls: views are taken again, and what is made of constants or is the same for all models is
/// made again.
Halves cut(const RangeProgram& whole, size_t outputs, const std::vector<bool>& keep);

}  // namespace wide
