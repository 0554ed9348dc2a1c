#pragma once
#include "engine/lower/plan/uses.h"

namespace wide {

/// Which values a forward pass saves for its backward pass: those with the fewest bytes from which
/// copies and cheap element-wise calls make all that the backward pass reads (a minimum cut, as
/// `min_cut_rematerialization_partition` of functorch finds it). Of two choices with as many bytes
/// the one that computes less again. What is made again from a bound value is only copies of it.
/// `first`, by node: the forward pass. `needed`, by value: what the rest reads of it directly.
/// `free`, by value: kept in any case. Returns by value whether it is saved.
ByValue<bool> least_saved(const Program& program, const Uses& uses, const std::vector<bool>& first,
                          const ByValue<bool>& needed, const ByValue<bool>& free);

}  // namespace wide
