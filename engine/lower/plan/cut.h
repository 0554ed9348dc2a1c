#pragma once
#include "engine/lower/executor.h"

namespace wide {

/// A value of the first half that the second one reads.
struct SavedValue {
  Value value;          // its type, sizes and strides in both halves
  int64_t output = -1;  // the output of the first half that has the same elements, or -1
  bool of_all = false;  // made by the shared phase: one for all models
};

/// A forward pass and its backward pass, cut out of one program.
struct Halves {
  /// Returns the outputs, the saved values of each model that are no output, then the updates; it
  /// is asked for the saved values of all models. Its bound values are those of the whole program.
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
/// saved. Computed again in the second half are views, values that come from constants, and results
/// of cheap operators where that saves memory (`least_saved`).
Halves cut(const RangeProgram& whole, size_t outputs, const std::vector<bool>& keep);

}  // namespace wide
