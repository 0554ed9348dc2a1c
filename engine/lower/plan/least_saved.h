#pragma once
#include "engine/program.h"

namespace wide {

/// A forward pass, of which `least_saved` chooses what is kept.
struct ForwardPass {
  std::vector<bool> nodes;  // by node: part of it
  ByValue<bool> read;       // by value: what the backward pass reads of it, before any choice
  /// By value: all of it lies in an output. That is kept in any case.
  ByValue<bool> in_output;
};

/// Which values a forward pass saves for its backward pass: those with the fewest bytes from which
/// copies and cheap element-wise calls make all that the backward pass reads (a minimum cut, as
/// `min_cut_rematerialization_partition` of functorch finds it). Of two choices with as many bytes
/// the one that computes less again. Users may change bound tensors and outputs that PyTorch does
/// not save before the backward pass runs: apart from copies of bound values, nothing is made again
/// from one that is not read anyway. Returns by value whether it is saved.
ByValue<bool> least_saved(const Program& program, const ForwardPass& forward);

/// Whether the node copies, as `clone` does.
bool copies(const Node& node);

/// By value: the value whose memory it shares, through views in all phases.
ByValue<ValueId> roots_of(const Program& program);

}  // namespace wide
