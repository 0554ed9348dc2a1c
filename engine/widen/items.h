#pragma once
#include "engine/widen/widen.h"

namespace wide {

/// A unit of Program(1) that is computed at once: a claimed region, group or node, or a plain node.
struct Item {
  size_t begin = 0, end = 0;  // of a group: its last node alone
  const std::vector<Argument>* arguments = nullptr;
  const std::vector<Argument>* results = nullptr;
  c10::OperatorHandle op;
  std::string name;
  const Rule* rule = nullptr;
  Claimed claimed = {};
  std::vector<size_t> group = {};  // all nodes of a claimed pattern, in order; else empty

  template <class Visit>
  void for_each_node(Visit visit) const {
    for (const size_t i : group) visit(i);
    if (group.empty())
      for (size_t i = begin; i < end; ++i) visit(i);
  }
  size_t first() const { return group.empty() ? begin : group.front(); }
  size_t count() const { return group.empty() ? end - begin : group.size(); }
};

/// Node `i` alone, unclaimed.
Item plain_item(const Program& program, size_t i);

/// Splits the program: the outermost claimed closed region first, then claimed groups of nodes,
/// then nodes. A group is computed at its last node.
std::vector<Item> find_items(const Program& program, const WidenOptions& options);

/// The strategy asked for by name, or "".
std::string forced_strategy(const WidenOptions& options, const Rule& rule);

}  // namespace wide
