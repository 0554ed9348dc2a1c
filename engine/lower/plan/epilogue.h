#pragma once
#include <set>

#include "engine/lower/plan/uses.h"

namespace wide {

/// What an operator does in a plan besides its own work: an addition behind it, then an activation,
/// then a pooling, and an activation behind that where there was none before. Positions count the
/// nodes of main.
struct Epilogue {
  std::optional<size_t> sum;         // the addition
  ValueId residual = kNone;          // what it adds, element by element in the order of memory
  std::optional<size_t> activation;  // the activation
  std::string text;                  // `activation_text` of it, or ""
  std::optional<size_t> pool;        // the pooling
  std::string pool_text;             // by the traits of it, or ""
  std::optional<size_t> last;        // the activation behind it
  std::string last_text;

  /// All of them, in their order.
  std::vector<size_t> readers() const;
  /// From now on an activation lies where its argument does, and so does a sum.
  void merge(const Program& program, const std::vector<size_t>& main, size_t position,
             Uses& uses) const;
};

/// What the operator at `position` can do of what follows it, by its traits; nothing that makes a
/// value of `apart`.
Epilogue epilogue_of(const Program& program, const std::vector<size_t>& main, const Uses& uses,
                     size_t position, const std::set<ValueId>& apart = {});

}  // namespace wide
