#pragma once
#include <optional>

#include "engine/program.h"

namespace wide {

/// Readers of each value in the main part of a program, views resolved: a value's root is the value
/// whose memory it shares. Positions count the nodes of main.
class Uses {
 public:
  Uses(const Program& program, const std::vector<size_t>& main);

  ValueId root(ValueId id) const { return root_[static_cast<size_t>(id)]; }
  /// Position of the last reader of a root; the number of nodes of main for results of the program.
  size_t last(ValueId root) const { return last_[static_cast<size_t>(root)]; }
  /// Position of the last node that reads a root, 0 if none does; being a result does not count.
  size_t last_node(ValueId root) const { return last_node_[static_cast<size_t>(root)]; }
  /// Whether the value has all elements of its root.
  bool covers_root(ValueId id) const;
  /// The only node that reads `root`, if it reads all of it as its argument `argument`.
  std::optional<size_t> reader_of_all(ValueId root, size_t argument = 0) const;
  /// `reader_of_all`, if the node's result also has an element for each element of `root`.
  std::optional<size_t> only_reader(ValueId root, size_t argument = 0) const;
  /// `root` takes over the memory of `other`: readers and views of `other` count as those of
  /// `root`.
  void merge(ValueId root, ValueId other);

 private:
  const Program& program_;
  const std::vector<size_t>& main_;  // node indices
  std::vector<ValueId> root_;
  std::vector<size_t> last_, last_node_;
  std::vector<size_t> reads_, last_reader_;  // by root: reads by nodes that are no views
  std::vector<bool> reckoned_;  // by root: read through pending conjugation or negation
};

/// The nodes of main, by index.
std::vector<size_t> main_of(const Program& program);

/// Whether strides have neither overlaps nor holes, in any order of dimensions.
bool dense(const Value& value);

void make_contiguous(Value& value);

}  // namespace wide
