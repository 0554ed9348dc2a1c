#include "engine/lower/plan/schedule.h"

#include <algorithm>

namespace wide {
namespace {

/// Moves each of the nodes `late`, with views of their results, to just before its first reader, or
/// to the end if it has none.
void run_late(Program& program, std::vector<bool> late) {
  const ByValue<int32_t> producers = program.producers();
  const size_t count = program.nodes.size();
  for (size_t i = 0; i < count; ++i)
    if (program.nodes[i].is_view())
      for_each_value(program.nodes[i].arguments, [&](ValueId id) {
        if (producers[id] >= 0 && late[static_cast<size_t>(producers[id])]) late[i] = true;
      });
  std::vector<size_t> order(count), before(count);  // `before`: the node that each must run before
  ByValue<size_t> first_reader(program.values.size(), count);
  for (size_t i = count; i-- > 0;) {
    order[i] = i;
    before[i] = late[i] ? count : i;
    if (late[i])
      for_each_value(program.nodes[i].results,
                     [&](ValueId id) { before[i] = std::min(before[i], first_reader[id]); });
    for_each_value(program.nodes[i].arguments,
                   [&](ValueId id) { first_reader[id] = std::min(first_reader[id], before[i]); });
  }
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return before[a] < before[b]; });
  std::vector<Node> ordered;
  for (const size_t i : order) ordered.push_back(std::move(program.nodes[i]));
  program.nodes = std::move(ordered);
}

/// Nodes that compute an output which no other node reads, except views of it that are outputs too:
/// those with the largest results first.
std::vector<size_t> last_nodes(const Program& program) {
  ByValue<bool> read(program.values.size(), false), output = read;
  for (const ValueId id : program.outputs) output[id] = true;
  std::vector<std::pair<int64_t, size_t>> found;  // bytes and node
  for (size_t i = program.nodes.size(); i-- > 0;) {
    const Node& node = program.nodes[i];
    int64_t bytes = 0;
    bool last = node.phase == Phase::main;
    for_each_value(node.results, [&](ValueId id) {
      last = last && !read[id] && output[id];
      bytes += program.value(id).bytes();
    });
    for_each_value(node.arguments, [&](ValueId id) {
      if (last && node.is_view())
        output[id] = true;
      else
        read[id] = true;
    });
    if (last && !node.is_view()) found.emplace_back(bytes, i);
  }
  std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<size_t> nodes;
  for (const auto& [bytes, i] : found) nodes.push_back(i);
  return nodes;
}

}  // namespace

void schedule(Program& program, const std::vector<bool>& again,
              const std::function<int64_t(const Program&)>& bytes) {
  run_late(program, again);
  const std::vector<size_t> last = last_nodes(program);
  const Program before = program;
  int64_t least = bytes(program);
  for (size_t count = 1; count < 2 * last.size(); count *= 2) {
    std::vector<bool> late(program.nodes.size(), false);
    for (size_t k = 0; k < std::min(count, last.size()); ++k) late[last[k]] = true;
    Program next = before;
    run_late(next, late);
    if (const int64_t now = bytes(next); now < least) {
      least = now;
      program = std::move(next);
    }
  }
}

}  // namespace wide
