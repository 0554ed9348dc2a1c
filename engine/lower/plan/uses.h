#pragma once
#include <optional>

#include "engine/program.h"

namespace wide {

/// Who reads what in the main part of a program, seen through views: a value's root is the one
/// whose memory it looks at. Positions count the nodes of main.
class Uses {
 public:
  Uses(const Program& program, const std::vector<size_t>& main);

  ValueId root(ValueId id) const { return root_[static_cast<size_t>(id)]; }
  /// Position of the last reader of a root; main's length for what is a result of the program.
  size_t last(ValueId root) const { return last_[static_cast<size_t>(root)]; }
  /// Position of the last node that reads a root, 0 where none does; being a result does not count.
  size_t last_node(ValueId root) const { return last_node_[static_cast<size_t>(root)]; }
  /// Whether the value is all of its root, element by element.
  bool covers_root(ValueId id) const;
  /// The one node that reads `root`, when that is its argument `argument`, all of it.
  std::optional<size_t> reader_of_all(ValueId root, size_t argument = 0) const;
  /// The same, when it makes as much of it, element by element.
  std::optional<size_t> only_reader(ValueId root, size_t argument = 0) const;
  /// `root` takes over the memory of `other`: readers and views of `other` count as those of
  /// `root`.
  void merge(ValueId root, ValueId other);

 private:
  const Program& program_;
  const std::vector<size_t>& main_;  // node indices
  std::vector<ValueId> root_;
  std::vector<size_t> last_, last_node_;
  std::vector<bool> reckoned_;  // memory seen through a conjugate or a minus yet to be taken
};

/// The nodes of main, by index.
std::vector<size_t> main_of(const Program& program);

/// Outputs, then updates.
std::vector<ValueId> results_of(const Program& program);

/// Both with the same type, sizes and strides.
bool same_layout(const Value& a, const Value& b);

/// Non-overlapping and without holes, in any order of dimensions.
bool dense(const Value& value);

/// Gives it the strides of its sizes in order.
void make_contiguous(Value& value);

}  // namespace wide
