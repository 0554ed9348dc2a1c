#pragma once
#include <set>

#include "engine/lower/plan/uses.h"

namespace wide {

/// Work that a kernel does on its results while they are in registers or cache: an addition, then
/// an activation, then a pooling, and an activation after the pooling if there was none before it.
/// Positions count the nodes of main.
struct Epilogue {
  std::optional<size_t> sum;         // the addition
  ValueId residual = kNone;          // what it adds, elementwise in memory order
  std::optional<size_t> activation;  // the activation
  std::string text;                  // `activation_text` of it, or ""
  std::optional<size_t> pool;        // the pooling
  std::string pool_text;             // `OperatorTraits::pool_text` of it, or ""
  std::optional<size_t> last;        // the activation after it
  std::string last_text;

  /// Positions of all these nodes, in their order.
  std::vector<size_t> readers() const;
  /// Tells `uses` that activation and sum share the memory of their argument.
  void merge(const Program& program, const std::vector<size_t>& main, size_t position,
             Uses& uses) const;
};

/// The longest epilogue that the operator at `position` can do by its traits, without nodes that
/// make a value in `apart`.
Epilogue epilogue_of(const Program& program, const std::vector<size_t>& main, const Uses& uses,
                     size_t position, const std::set<ValueId>& apart = {});

}  // namespace wide
