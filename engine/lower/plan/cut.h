#pragma once
#include "engine/lower/executor.h"

namespace wide {

/// A value of the first half that the second one reads.
struct SavedValue {
  Value value;          // with its id in both halves
  int64_t output = -1;  // the output of the first half that has the same elements, or -1
};

/// A forward pass and its backward pass, cut out of one program.
struct Halves {
  /// Returns the outputs, the saved values that are no output, then the updates. Its bound values
  /// are those of the whole program.
  std::shared_ptr<const RangeProgram> forward;
  /// Its bound values are those of the whole program, then the saved ones. Returns the gradients.
  std::shared_ptr<const RangeProgram> backward;
  std::vector<SavedValue> saved;
  /// For each bound value of the whole program: whether the second half reads it or a saved copy.
  std::vector<bool> reads;
};

/// Cuts a program whose first `outputs` results are the forward pass's outputs and whose other
/// results are gradients; `keep` says which gradients are wanted. The first half computes outputs
/// and updates, and makes all random draws; the second half computes the rest. Results of calls are
/// saved; views, and values that come from constants or are the same for all models, are
/// recomputed.
Halves cut(const RangeProgram& whole, size_t outputs, const std::vector<bool>& keep);

}  // namespace wide
