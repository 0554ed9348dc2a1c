#pragma once
#include "engine/program.h"

namespace wide {

/// A forward pass, for which `least_saved` chooses the saved values.
struct ForwardPass {
  std::vector<bool> nodes;  // by node: part of it
  ByValue<bool> read;       // by value: read by the backward pass if all is saved
  /// By value: an output has all its elements, and is kept anyway.
  ByValue<bool> in_output;
};

/// Which values a forward pass saves for its backward pass: those with the fewest bytes from which
/// copies and cheap element-wise calls can compute all values that the backward pass reads (a
/// minimum cut, like functorch's `min_cut_rematerialization_partition`). Of equally small choices,
/// the one that recomputes less. Users may change bound tensors and outputs that PyTorch does not
/// save before the backward pass: unless they are read anyway, nothing is recomputed from those
/// except from a copy of a bound value, such as a bias, which is then saved itself. Returns, by
/// value, whether it is saved.
ByValue<bool> least_saved(const Program& program, const ForwardPass& forward);

/// Whether the node copies, as `clone` does.
bool copies(const Node& node);

/// By value: the value whose memory it shares, through views in all phases.
ByValue<ValueId> roots_of(const Program& program);

}  // namespace wide
