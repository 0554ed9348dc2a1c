#include "engine/lower/plan/least_saved.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <set>

#include "engine/lower/plan/operator_traits.h"

namespace wide {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max() / 4;

/// Maximum flow by shortest paths (Edmonds and Karp 1972).
class Flow {
 public:
  explicit Flow(size_t nodes) : edges_(nodes) {}

  void add(size_t from, size_t to, int64_t capacity) {
    edges_[from].push_back({to, edges_[to].size(), capacity});
    edges_[to].push_back({from, edges_[from].size() - 1, 0});
  }

  /// Returns, by node, whether `sink` can still be reached from it when no more flows: the minimum
  /// cut nearest to the sink.
  std::vector<bool> side_of_sink(size_t source, size_t sink) {
    while (push(source, sink)) {
    }
    std::vector<bool> seen(edges_.size(), false);
    std::deque<size_t> next{sink};
    seen[sink] = true;
    while (!next.empty()) {
      const size_t at = next.front();
      next.pop_front();
      for (const Edge& e : edges_[at]) {
        if (seen[e.to] || edges_[e.to][e.back].left == 0) continue;
        seen[e.to] = true;
        next.push_back(e.to);
      }
    }
    return seen;
  }

 private:
  struct Edge {
    size_t to = 0, back = 0;  // `back`: the reverse edge's index at `to`
    int64_t left = 0;
  };

  bool push(size_t source, size_t sink) {
    std::vector<std::pair<size_t, size_t>> by(edges_.size(), {source, 0});  // node, edge
    std::vector<bool> seen(edges_.size(), false);
    std::deque<size_t> next{source};
    seen[source] = true;
    while (!next.empty() && !seen[sink]) {
      const size_t at = next.front();
      next.pop_front();
      for (size_t k = 0; k < edges_[at].size(); ++k) {
        const Edge& e = edges_[at][k];
        if (seen[e.to] || e.left == 0) continue;
        seen[e.to] = true;
        by[e.to] = {at, k};
        next.push_back(e.to);
      }
    }
    if (!seen[sink]) return false;
    int64_t most = kForever;
    for (size_t at = sink; at != source; at = by[at].first)
      most = std::min(most, edges_[by[at].first][by[at].second].left);
    for (size_t at = sink; at != source; at = by[at].first) {
      Edge& e = edges_[by[at].first][by[at].second];
      e.left -= most;
      edges_[at][e.back].left += most;
    }
    return true;
  }

  std::vector<std::vector<Edge>> edges_;
};

bool copies(const Node& node) {
  return node.name() == "aten::clone" || node.name() == "aten::_to_copy";
}

bool is_cheap(const Node& node) {
  static const std::set<std::string> names{"aten::relu", "aten::silu", "aten::gelu"};
  return copies(node) || names.count(node.name()) || operator_traits(node.op).cheap;
}

}  // namespace

ByValue<bool> least_saved(const Program& program, const Uses& uses, const std::vector<bool>& first,
                          const ByValue<bool>& needed, const ByValue<bool>& free) {
  const size_t count = program.values.size();
  const size_t source = 2 * count, sink = source + 1;
  const auto in = [](ValueId id) { return 2 * static_cast<size_t>(id); };
  const auto out = [](ValueId id) { return 2 * static_cast<size_t>(id) + 1; };
  ByValue<bool> bound(count, false), made(count, false);  // made: by the forward pass
  for (const ValueId id : program.bound) bound[id] = true;
  Flow flow(2 * count + 2);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (!first[i] || node.phase != Phase::main) continue;
    bool again = node.is_view() || (!node.is_random() && is_cheap(node));
    for_each_value(node.arguments, [&](ValueId id) {
      again = again && (node.is_view() || copies(node) || !bound[uses.root(id)]);
    });
    for_each_value(node.results, [&](ValueId id) {
      made[id] = true;
      flow.add(in(id), out(id),
               node.is_view() ? kForever
               : free[id]     ? 0
                              : program.value(id).bytes());
      if (!again) flow.add(source, in(id), kForever);
      if (needed[id]) flow.add(out(id), sink, kForever);
      if (!again) return;
      for_each_value(node.arguments, [&](ValueId argument) {
        if (made[argument]) flow.add(out(argument), in(id), kForever);
      });
    });
  }
  const std::vector<bool> after = flow.side_of_sink(source, sink);
  ByValue<bool> saved(count, false);
  for (ValueId id = 0; id < static_cast<ValueId>(count); ++id)
    saved[id] = made[id] && !after[in(id)] && after[out(id)];
  return saved;
}

}  // namespace wide
