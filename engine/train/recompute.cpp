#include "engine/train/recompute.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "engine/lower/plan/epilogue.h"
#include "engine/lower/plan/operator_traits.h"
#include "engine/lower/plan/plan.h"
#include "engine/lower/plan/uses.h"

namespace wide {
namespace {

int64_t calls_of(const Program& program) {
  return std::ranges::count_if(program.nodes, [](const Node& node) { return !node.is_view(); });
}

/// Positions count the nodes of main; a value's root is the value whose memory it shares.
class Recomputation {
 public:
  explicit Recomputation(RangeProgram& range)
      : program_(range.wide.program),
        apart_(range.apart),
        main_(main_of(program_)),
        uses_(program_, main_),
        made_at_(program_.values.size(), -1),
        last_forward_(program_.values.size(), -1),
        read_after_(program_.values.size(), false) {
    find_reads();
  }

  /// False if there is nothing to recompute.
  bool run(int64_t segments) {
    if (border_ == 0) return false;
    divide(segments);
    find_needed();
    if (!any_needed_) return false;
    keep_epilogues();
    emit();
    program_.regions.clear();
    program_.remove_dead_nodes();  // nodes that now run only in the second half
    program_.verify();
    return true;
  }

 private:
  const Node& node(int64_t position) const {
    return program_.nodes[main_[static_cast<size_t>(position)]];
  }
  ValueId root(ValueId id) const { return uses_.root(id); }
  bool is_result(ValueId id) const { return uses_.last(root(id)) == main_.size(); }

  void find_reads() {
    for (int64_t p = 0; p < count(); ++p)
      for_each_value(node(p).results, [&](ValueId id) { made_at_[id] = p; });
    border_ = made_at_[root(program_.outputs[0])] + 1;
    for (int64_t p = 0; p < count(); ++p)
      for_each_value(node(p).arguments, [&](ValueId id) {
        if (p < border_)
          last_forward_[root(id)] = p;
        else
          read_after_[root(id)] = true;
      });
  }

  int64_t count() const { return static_cast<int64_t>(main_.size()); }

  /// Chooses where segments begin: at about equal bytes, where the fewest bytes cross the border.
  void divide(int64_t segments) {
    const auto length = static_cast<size_t>(border_);
    // Before each position: bytes made for the second half, and bytes that cross this border.
    std::vector<int64_t> made(length + 1, 0), over(length + 1, 0);
    for (int64_t p = 0; p < border_; ++p)
      for_each_value(node(p).results, [&](ValueId id) {
        if (root(id) != id) return;
        const int64_t bytes = program_.value(id).bytes();
        if (read_after_[id] && !is_result(id)) made[static_cast<size_t>(p) + 1] += bytes;
        for (int64_t q = p + 1; q <= last_forward_[id]; ++q) over[static_cast<size_t>(q)] += bytes;
      });
    for (size_t p = 0; p < length; ++p) made[p + 1] += made[p];
    const int64_t total = made[length];
    std::vector<size_t> begins;
    for (int64_t k = 1; k < segments; ++k) {
      const int64_t wanted = total * k / segments;
      const auto off = [&](size_t p) { return std::abs(made[p] - wanted); };
      size_t best = 0;
      for (size_t p = 1; p < length; ++p) {
        if (off(p) > total / segments / 3) continue;
        if (best == 0 || std::pair(over[p], off(p)) < std::pair(over[best], off(best))) best = p;
      }
      if (best > 0 && (begins.empty() || best > begins.back())) begins.push_back(best);
    }
    segment_.assign(length, 0);
    for (const size_t begin : begins)
      for (size_t p = begin; p < length; ++p) ++segment_[p];
    segments_ = begins.size() + 1;
  }

  size_t segment(int64_t position) const { return segment_[static_cast<size_t>(position)]; }

  /// Whether lowering may pack the weight for this node, which it does only for a single reader.
  bool may_be_packed(const Node& node) const {
    if (!operator_traits(node.op).pack || node.arguments[1].kind != Argument::Kind::value)
      return false;
    const ValueId weight = node.arguments[1].values[0];
    return program_.value(weight).role == Role::intermediate && made_at_[weight] < 0;
  }

  bool repeatable(const Node& node) const {
    return !node.is_random() && !node.op.schema().is_mutable() && !may_be_packed(node);
  }

  /// Whether the value is kept for the second half instead of recomputed.
  bool kept(ValueId id) const {
    const ValueId whole = root(id);
    const int64_t at = made_at_[whole];
    // Values made in the second half are available, also views of values that are not kept.
    if (at < 0 || made_at_[id] >= border_ || is_result(id)) return true;
    const size_t own = segment(at);
    const int64_t last = std::max(at, last_forward_[whole]);
    return own + 1 == segments_ || segment(last) != own || !repeatable(node(at));
  }

  void find_needed() {
    needed_.assign(static_cast<size_t>(border_), false);
    first_reader_.assign(segments_, -1);
    for (int64_t p = border_; p < count(); ++p)
      for_each_value(node(p).arguments, [&](ValueId id) {
        if (kept(id)) return;
        any_needed_ = true;
        if (int64_t& first = first_reader_[segment(made_at_[id])]; first < 0) first = p;
        need(id);
      });
  }

  /// Marks the node of a value, and those of its arguments that are not kept: all in one segment.
  void need(ValueId id) {
    std::vector<ValueId> left{id};
    while (!left.empty()) {
      const auto at = static_cast<size_t>(made_at_[left.back()]);
      left.pop_back();
      if (needed_[at]) continue;
      needed_[at] = true;
      for_each_value(node(static_cast<int64_t>(at)).arguments, [&](ValueId argument) {
        if (!kept(argument)) left.push_back(argument);
      });
    }
  }

  /// A kernel computes a following node as its epilogue only if nothing else reads its result. The
  /// rewrite removes readers, which must not create new epilogues: results of nodes in no epilogue
  /// stay `apart`.
  void keep_epilogues() {
    Uses uses = uses_;
    std::vector<bool> absorbed(main_.size(), false);
    for (size_t p = 0; p < main_.size(); ++p) {
      const Epilogue epilogue = epilogue_of(program_, main_, uses, p);
      for (const size_t reader : epilogue.readers()) absorbed[reader] = true;
      epilogue.merge(program_, main_, p, uses);
    }
    for (size_t p = 0; p < main_.size(); ++p)
      if (!absorbed[p])
        for_each_value(program_.nodes[main_[p]].results, [&](ValueId id) { apart_.insert(id); });
  }

  void emit() {
    ByValue<ValueId> again(program_.values.size(), kNone);
    std::vector<Node> nodes;
    const auto rename = [&](Node& node) {
      for (Argument& a : node.arguments)
        for (ValueId& id : a.values)
          if (id != kNone && again[id] != kNone) id = again[id];
    };
    const auto repeat = [&](size_t part) {
      for (int64_t q = 0; q < border_; ++q) {
        if (!needed_[static_cast<size_t>(q)] || segment(q) != part) continue;
        Node copy = node(q);
        rename(copy);
        for (Argument& result : copy.results)
          for (ValueId& id : result.values) {
            if (id == kNone) continue;
            const ValueId made = program_.add_value(Value(program_.value(id)));
            again.push_back(kNone);
            if (!kept(id)) again[id] = made;
            if (apart_.count(id) > 0) apart_.insert(made);
            id = made;
          }
        nodes.push_back(std::move(copy));
      }
    };
    int64_t position = 0;
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      Node next = program_.nodes[i];
      if (next.phase == Phase::main) {
        for (size_t part = 0; part < segments_; ++part)
          if (first_reader_[part] == position) repeat(part);
        if (position >= border_) rename(next);
        ++position;
      }
      nodes.push_back(std::move(next));
    }
    program_.nodes = std::move(nodes);
  }

  Program& program_;
  std::set<ValueId>& apart_;
  const std::vector<size_t> main_;  // node indices
  const Uses uses_;
  ByValue<int64_t> made_at_;       // position; -1: outside main
  ByValue<int64_t> last_forward_;  // by root: last position in the first half that reads it
  ByValue<bool> read_after_;       // by root: read in the second half
  int64_t border_ = 0;             // where the second half begins
  std::vector<size_t> segment_;    // by position in the first half
  size_t segments_ = 1;
  std::vector<bool> needed_;           // by position in the first half: computed twice
  std::vector<int64_t> first_reader_;  // by segment: position in the second half, -1 for none
  bool any_needed_ = false;
};

}  // namespace

int64_t recompute(RangeProgram& range, int64_t segments) {
  const int64_t before = calls_of(range.wide.program);
  if (segments < 2 || !Recomputation(range).run(segments)) return 0;
  return calls_of(range.wide.program) - before;
}

Recomputed fit_arena(RangeProgram& range, int64_t most) {
  constexpr int kTries = 3;  // tries in a row that are no better than the best
  const auto arena_bytes = [](const RangeProgram& some) {
    return Plan::memory_of(some.wide.program, some.plan_options()).arena_bytes;
  };
  const RangeProgram plain = range;
  const int64_t before = arena_bytes(plain);
  const auto nodes = static_cast<int64_t>(plain.wide.program.nodes.size());
  int64_t least = before;
  int worse = 0;
  Recomputed best;
  for (int64_t s = 2; least > most && worse < kTries && s < nodes;
       s += std::max<int64_t>(1, s / 3)) {
    RangeProgram tried = plain;
    const int64_t calls = recompute(tried, s);
    const int64_t bytes = arena_bytes(tried);
    ++worse;
    if (bytes >= least) continue;
    worse = 0;
    least = bytes;
    best = {calls, before - bytes};
    range = std::move(tried);
  }
  return best;
}

}  // namespace wide
