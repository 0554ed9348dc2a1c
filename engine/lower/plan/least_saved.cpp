#include "engine/lower/plan/least_saved.h"

#include <algorithm>
#include <limits>
#include <set>

#include "engine/lower/plan/operator_traits.h"

namespace wide {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max() / 4;

/// Maximum flow by blocking flows on shortest paths (Dinitz 1970). Recomputed values depend on
/// short chains of calls, so a few rounds suffice, each linear in the number of edges.
class Flow {
 public:
  explicit Flow(size_t nodes) : first_(nodes, kNoEdge), level_(nodes), next_(nodes) {}

  void add(size_t from, size_t to, int64_t capacity) {
    edges_.push_back({to, first_[from], capacity});
    first_[from] = edges_.size() - 1;
    edges_.push_back({from, first_[to], 0});
    first_[to] = edges_.size() - 1;
  }

  /// Returns, by node, whether `sink` can still be reached from it at maximum flow: the minimum cut
  /// nearest to the sink.
  std::vector<bool> side_of_sink(size_t source, size_t sink) {
    while (find_levels(source, sink)) {
      next_ = first_;
      while (push(source, sink)) {
      }
    }
    std::vector<bool> seen(first_.size(), false);
    std::vector<size_t> queue{sink};
    seen[sink] = true;
    for (size_t k = 0; k < queue.size(); ++k)
      for (size_t e = first_[queue[k]]; e != kNoEdge; e = edges_[e].next) {
        const size_t from = edges_[e].to;
        if (seen[from] || edges_[e ^ 1].left == 0) continue;
        seen[from] = true;
        queue.push_back(from);
      }
    return seen;
  }

 private:
  static constexpr size_t kNoEdge = std::numeric_limits<size_t>::max();

  struct Edge {  // at an even index; its reverse edge is the next one
    size_t to = 0, next = kNoEdge;
    int64_t left = 0;
  };

  /// The number of edges from the source to each node; false if the sink cannot be reached.
  bool find_levels(size_t source, size_t sink) {
    std::fill(level_.begin(), level_.end(), -1);
    level_[source] = 0;
    std::vector<size_t> queue{source};
    for (size_t k = 0; k < queue.size() && level_[sink] < 0; ++k)
      for (size_t e = first_[queue[k]]; e != kNoEdge; e = edges_[e].next) {
        if (edges_[e].left == 0 || level_[edges_[e].to] >= 0) continue;
        level_[edges_[e].to] = level_[queue[k]] + 1;
        queue.push_back(edges_[e].to);
      }
    return level_[sink] >= 0;
  }

  /// Adds the flow of one shortest path; false if there is none. Dead ends are not visited again in
  /// this round.
  bool push(size_t source, size_t sink) {
    std::vector<size_t> path;  // edges
    size_t at = source;
    while (at != sink) {
      size_t& e = next_[at];
      while (e != kNoEdge && (edges_[e].left == 0 || level_[edges_[e].to] != level_[at] + 1))
        e = edges_[e].next;
      if (e != kNoEdge) {
        path.push_back(e);
        at = edges_[e].to;
        continue;
      }
      if (path.empty()) return false;
      at = edges_[path.back() ^ 1].to;
      path.pop_back();
      next_[at] = edges_[next_[at]].next;
    }
    int64_t most = kForever;
    for (const size_t e : path) most = std::min(most, edges_[e].left);
    for (const size_t e : path) {
      edges_[e].left -= most;
      edges_[e ^ 1].left += most;
    }
    return true;
  }

  std::vector<Edge> edges_;
  std::vector<size_t> first_;  // by node
  std::vector<int64_t> level_;
  std::vector<size_t> next_;  // by node: edge to try next
};

/// A normalisation is as large as its input, which its own backward pass reads; a padded tensor is
/// larger than the one it is copied from.
bool is_cheap(const Node& node) {
  static const std::set<std::string> names{"aten::relu",
                                           "aten::silu",
                                           "aten::gelu",
                                           "aten::constant_pad_nd",
                                           "aten::_softmax",
                                           "aten::native_layer_norm",
                                           "aten::native_group_norm",
                                           "aten::_native_batch_norm_legit",
                                           "aten::_native_batch_norm_legit.no_stats"};
  return copies(node) || names.count(node.name()) || operator_traits(node.op).cheap;
}

/// By value: whether the forward pass reads it for softmax only, masked or scaled: attention's
/// scores. They are many more than the queries and keys that they are made of.
ByValue<bool> scores_of(const Program& program, const ForwardPass& forward) {
  ByValue<bool> read(program.values.size(), false), otherwise = read;
  for (const ValueId id : program.outputs) otherwise[id] = true;
  for (size_t i = program.nodes.size(); i-- > 0;) {
    const Node& node = program.nodes[i];
    if (!forward.nodes[i]) continue;
    bool only = node.name() == "aten::_softmax" || operator_traits(node.op).softmax;
    if (!only && (node.is_view() || is_cheap(node))) {
      only = true;
      for_each_value(node.results, [&](ValueId id) { only = only && read[id] && !otherwise[id]; });
    }
    for_each_value(node.arguments, [&](ValueId id) { (only ? read : otherwise)[id] = true; });
  }
  for (ValueId id = 0; id < read.size(); ++id) read[id] = read[id] && !otherwise[id];
  return read;
}

bool is_product(const Node& node) {
  return node.name() == "aten::bmm" || node.name() == "aten::baddbmm" ||
         operator_traits(node.op).product;
}

/// By value: whether users may change it (or the only value it is made of) unnoticed by PyTorch
/// before the backward pass: bound values and outputs that the backward pass does not read anyway.
/// A copy counts as its bound value: strategies copy what PyTorch reads directly.
ByValue<bool> may_change(const Program& program, const ByValue<ValueId>& roots,
                         const ForwardPass& forward) {
  ByValue<bool> read(program.values.size(), false), change = read;
  for (ValueId id = 0; id < read.size(); ++id)
    if (forward.read[id]) read[roots[id]] = true;
  ByValue<bool> copied = read;
  for (size_t i = program.nodes.size(); i-- > 0;)
    if (const Node& node = program.nodes[i]; copies(node))
      for_each_value(node.results, [&](ValueId id) {
        if (copied[id])
          for_each_value(node.arguments, [&](ValueId from) { copied[roots[from]] = true; });
      });
  for (const ValueId id : program.bound) change[id] = !copied[id];
  for (const Node& node : program.nodes)
    for_each_value(node.results, [&](ValueId id) {
      if (node.is_view())
        change[id] = change[roots[id]];
      else if (node.phase != Phase::prologue)
        change[id] = forward.in_output[id] && !read[id];
      else
        for_each_value(node.arguments,
                       [&](ValueId from) { change[id] = change[id] || change[from]; });
    });
  return change;
}

}  // namespace

bool copies(const Node& node) {
  return node.name() == "aten::clone" || node.name() == "aten::_to_copy";
}

ByValue<ValueId> roots_of(const Program& program) {
  ByValue<ValueId> roots;
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) roots.push_back(id);
  for (const Node& node : program.nodes)
    if (node.is_view())
      for_each_value(node.results,
                     [&](ValueId id) { roots[id] = roots[node.arguments[0].values[0]]; });
  return roots;
}

ByValue<bool> least_saved(const Program& program, const ForwardPass& forward) {
  const size_t count = program.values.size();
  const size_t source = 2 * count, sink = source + 1;
  const auto in = [](ValueId id) { return 2 * static_cast<size_t>(id); };
  const auto out = [](ValueId id) { return 2 * static_cast<size_t>(id) + 1; };
  const ByValue<ValueId> roots = roots_of(program);
  const ByValue<bool> change = may_change(program, roots, forward);
  const ByValue<bool> scores = scores_of(program, forward);
  ByValue<bool> made(count, false);  // by the forward pass
  Flow flow(2 * count + 2);
  // Of a bound value that may change a copy can be saved, as small as a bias, to make others again.
  for (const ValueId id : program.bound) {
    const Value& v = program.value(id);
    if (!change[id] || !v.wide || !v.strided || v.role != Role::input) continue;
    made[id] = true;
    flow.add(source, in(id), kForever);
    flow.add(in(id), out(id), v.bytes());
  }
  const auto blocked = [&](ValueId id) { return change[id] && !made[roots[id]]; };
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (!forward.nodes[i] || node.phase == Phase::prologue) continue;
    bool again = !node.is_random() && is_cheap(node);
    if (is_product(node))
      for_each_value(node.results, [&](ValueId id) { again = again || scores[id]; });
    for_each_value(node.arguments, [&](ValueId id) { again = again && !blocked(id); });
    // A view is made again, and what has no strides where that is possible.
    bool never_saved = node.is_view();
    if (node.phase == Phase::shared)
      for_each_value(node.results, [&](ValueId id) { never_saved |= !program.value(id).strided; });
    again = again || never_saved;
    for_each_value(node.results, [&](ValueId id) {
      made[id] = true;
      const bool kept = forward.in_output[id] && !change[id];
      flow.add(in(id), out(id), never_saved ? kForever : kept ? 0 : program.value(id).bytes());
      if (!again) flow.add(source, in(id), kForever);
      if (forward.read[id]) flow.add(out(id), sink, kForever);
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
