#include "engine/widen/items.h"

#include <algorithm>

namespace wide {

namespace {

class ItemFinder {
 public:
  ItemFinder(const Program& program, const WidenOptions& options)
      : program_(program), options_(options), uses_(program.uses()) {}

  std::vector<Item> find() {
    std::vector<const Region*> by_begin(program_.regions.size());
    for (size_t i = 0; i < by_begin.size(); ++i) by_begin[i] = &program_.regions[i];
    std::ranges::sort(by_begin, [](const Region* a, const Region* b) {
      return a->begin != b->begin ? a->begin < b->begin
                                  : (a->end != b->end ? a->end > b->end : a->depth < b->depth);
    });
    find_groups();
    std::map<size_t, Item> regions;
    size_t r = 0;
    for (size_t i = 0; i < program_.nodes.size();) {
      while (r < by_begin.size() && by_begin[r]->begin < static_cast<int32_t>(i)) ++r;
      std::optional<Item> found;
      for (size_t k = r; k < by_begin.size() && by_begin[k]->begin == static_cast<int32_t>(i);
           ++k) {
        found = claim_region(*by_begin[k]);
        if (found && yields_to_group(*found)) found.reset();
        if (found) break;
      }
      const size_t next = found ? found->end : i + 1;
      if (found) regions.emplace(i, std::move(*found));
      i = next;
    }
    std::vector<Item> items;
    for (size_t i = 0; i < program_.nodes.size();) {
      if (auto region = regions.find(i); region != regions.end()) {
        i = region->second.end;
        items.push_back(std::move(region->second));
        continue;
      }
      const int32_t group = group_of_[i];
      if (group < 0) {
        items.push_back(node_item(i));
      } else if (groups_[static_cast<size_t>(group)].begin == i) {
        items.push_back(groups_[static_cast<size_t>(group)]);
      }
      ++i;
    }
    return items;
  }

 private:
  /// Finds claimed patterns from the end on, since the longest pattern with a node ends last.
  void find_groups() {
    group_of_.assign(program_.nodes.size(), -1);
    std::optional<PatternView> view;
    for (size_t i = program_.nodes.size(); i-- > 0;) {
      const std::string& name = program_.nodes[i].op.schema().operator_name().name;
      for (const Rule* rule : claimants())
        for (const Pattern& pattern : rule->patterns) {
          if (pattern.op != name || group_of_[i] >= 0 || forced_strategy(options_, *rule) == "vmap")
            continue;
          if (!view) view.emplace(program_);
          auto matched = pattern.match(*view, i);
          if (!matched) continue;
          Item item = plain_item(program_, i);
          item.rule = rule;
          item.claimed = std::move(matched->claimed);
          item.group = std::move(matched->nodes);
          item.group.push_back(i);
          std::ranges::sort(item.group);
          if (!free_and_closed(item.group)) continue;
          for (size_t member : item.group) group_of_[member] = static_cast<int32_t>(groups_.size());
          groups_.push_back(std::move(item));
        }
    }
  }

  /// Whether no node of the group belongs to another one, and the results of all nodes but the last
  /// are only read inside it.
  bool free_and_closed(const std::vector<size_t>& group) const {
    std::map<ValueId, int32_t> inside;
    for (size_t i : group)
      for_each_value(program_.nodes[i].arguments, [&](ValueId id) { ++inside[id]; });
    bool holds = true;
    for (size_t i : group) {
      holds = holds && group_of_[i] < 0;
      if (i != group.back())
        for_each_value(program_.nodes[i].results,
                       [&](ValueId id) { holds = holds && uses_[id] == inside[id]; });
    }
    return holds;
  }

  /// Whether a claimed region lies inside a larger group, of which it becomes part. Any other
  /// region dissolves the groups that it overlaps.
  bool yields_to_group(const Item& region) {
    const int32_t first = group_of_[region.begin];
    bool inside = first >= 0;
    for (size_t i = region.begin; i < region.end; ++i) inside = inside && group_of_[i] == first;
    if (inside && groups_[static_cast<size_t>(first)].group.size() > region.end - region.begin)
      return true;
    for (size_t i = region.begin; i < region.end; ++i)
      if (const int32_t group = group_of_[i]; group >= 0)
        for (size_t member : groups_[static_cast<size_t>(group)].group) group_of_[member] = -1;
    return false;
  }

  std::optional<Item> claim_region(const Region& region) {
    if (region.mutates || !closed(region)) return std::nullopt;
    Item item{static_cast<size_t>(region.begin),
              static_cast<size_t>(region.end),
              &region.arguments,
              &region.results,
              region.op,
              region.name()};
    return claim(item) ? std::optional(item) : std::nullopt;
  }

  Item node_item(size_t i) {
    Item item = plain_item(program_, i);
    claim(item);
    return item;
  }

  bool claim(Item& item) {
    for (const Rule* rule : claimants()) {
      for (const Claim& c : rule->claims) {
        if (c.op != item.name) continue;
        auto claimed = c.match(CallView(program_, *item.arguments));
        if (!claimed || !results_suffice(item, *claimed) ||
            forced_strategy(options_, *rule) == "vmap")
          continue;
        item.rule = rule;
        item.claimed = std::move(*claimed);
        return true;
      }
    }
    return false;
  }

  bool results_suffice(const Item& item, const Claimed& claimed) const {
    for (size_t i = 0; i < claimed.results.size() && i < item.results->size(); ++i)
      if (claimed.results[i] < 0)
        for (ValueId id : (*item.results)[i].values)
          if (id != kNone && uses_[id] > 0) return false;
    return true;
  }

  /// Whether only the results of the region are used after it, none of its intermediate values.
  bool closed(const Region& region) const {
    ByValue<int32_t> inside(program_.values.size(), 0);
    for (int32_t i = region.begin; i < region.end; ++i)
      for_each_value(program_.nodes[static_cast<size_t>(i)].arguments,
                     [&](ValueId id) { ++inside[id]; });
    ByValue<bool> result(program_.values.size(), false), made(program_.values.size(), false);
    for_each_value(region.results, [&](ValueId id) { result[id] = true; });
    bool closed = true;
    for (int32_t i = region.begin; i < region.end; ++i)
      for_each_value(program_.nodes[static_cast<size_t>(i)].results, [&](ValueId id) {
        made[id] = true;
        if (!result[id] && uses_[id] != inside[id]) closed = false;
      });
    for_each_value(region.results, [&](ValueId id) {
      // A result that is one of the arguments unchanged is not computed here; an unused one may
      // have been removed.
      if (!made[id] && uses_[id] > 0) closed = false;
    });
    return closed;
  }

  const Program& program_;
  const WidenOptions& options_;
  ByValue<int32_t> uses_;
  std::vector<Item> groups_;
  std::vector<int32_t> group_of_;  // by node: index in groups_, or -1
};

}  // namespace

Item plain_item(const Program& program, size_t i) {
  const Node& node = program.nodes[i];
  return {i, i + 1, &node.arguments, &node.results, node.op, node.op.schema().operator_name().name};
}

std::vector<Item> find_items(const Program& program, const WidenOptions& options) {
  return ItemFinder(program, options).find();
}

std::string forced_strategy(const WidenOptions& options, const Rule& rule) {
  auto it = options.force.find(rule.name);
  if (it == options.force.end()) it = options.force.find("*");
  return it == options.force.end() ? "" : it->second;
}

}  // namespace wide
