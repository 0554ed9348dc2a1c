#pragma once
#include "engine/lower/executor.h"

namespace wide {

/// A value of the first half that the second one reads.
struct SavedValue {
  Value value;          // its type, sizes and strides in both halves
  int64_t output = -1;  // the output of the first half that has the same elements, or -1
  bool of_all = false;  // made by the shared phase, for all models
};

/// A forward pass and its backward pass, cut out of one program.
struct Halves {
  /// Returns the outputs, saved values of single models that are no output, then the updates;
  /// `asked` lists saved values of all models. Its bound values are those of the whole program.
  std::shared_ptr<const RangeProgram> forward;
  /// Its bound values are those of the whole program, then the saved ones; it places those of each
  /// model that are no output. Returns the gradients.
  std::shared_ptr<const RangeProgram> backward;
  std::vector<SavedValue> saved;
  /// For each bound value of the whole program: whether the second half reads it or a saved copy.
  std::vector<bool> reads;
};

/// Cuts a program whose first `outputs` results are the forward pass's outputs and whose other
/// results are gradients; `keep`: which gradients to compute. The first half computes outputs,
/// updates and all random numbers; the second half the rest. Results are saved, except that the
/// second half recomputes views, values made from constants, and results of cheap operators if that
/// saves memory (`least_saved`).
/// The order of the second half is the one that takes the least memory for `ranges` ranges of
/// models on `threads` threads (`schedule`).
Halves cut(const RangeProgram& whole, size_t outputs, const std::vector<bool>& keep, int64_t ranges,
           int64_t threads);

}  // namespace wide
