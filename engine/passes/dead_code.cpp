#include <fmt/format.h>

#include <map>

#include "engine/passes/pass.h"

namespace wide {

int64_t remove_dead_nodes(Program& program) {
  std::vector<bool> live(program.values.size(), false);
  for (ValueId id : program.outputs) live[static_cast<size_t>(id)] = true;
  for (const Update& u : program.updates) live[static_cast<size_t>(u.value)] = true;
  std::vector<bool> keep(program.nodes.size(), false);
  // A composite call that is needed needs its arguments, even one that its own nodes made anew
  // (a view of what was changed in place): whoever claims the call as a whole reads it.
  std::multimap<size_t, const Region*> regions;
  for (const Region& r : program.regions)
    if (r.end > r.begin) regions.emplace(static_cast<size_t>(r.end - 1), &r);
  int64_t removed = 0;
  for (size_t i = program.nodes.size(); i-- > 0;) {
    const auto [first, last] = regions.equal_range(i);
    for (auto it = first; it != last; ++it) {
      bool read = false;
      for_each_value(it->second->results,
                     [&](ValueId id) { read |= live[static_cast<size_t>(id)]; });
      if (read)
        for_each_value(it->second->arguments,
                       [&](ValueId id) { live[static_cast<size_t>(id)] = true; });
    }
    const Node& node = program.nodes[i];
    bool needed = node.is_random();
    for_each_value(node.results, [&](ValueId id) { needed |= live[static_cast<size_t>(id)]; });
    keep[i] = needed;
    if (!needed) {
      ++removed;
      continue;
    }
    for_each_value(node.arguments, [&](ValueId id) { live[static_cast<size_t>(id)] = true; });
  }
  if (removed > 0) program.keep_nodes(keep);
  return removed;
}

namespace {
[[maybe_unused]] const bool registered =
    add_pass({"dead-code", "removes what no output needs", 90, [](Program& program) {
                return fmt::format("removed {} nodes", remove_dead_nodes(program));
              }});
}  // namespace

}  // namespace wide
