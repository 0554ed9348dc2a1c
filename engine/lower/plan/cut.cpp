#include "engine/lower/plan/cut.h"

#include <algorithm>

#include "engine/error.h"
#include "engine/lower/plan/least_saved.h"
#include "engine/lower/plan/schedule.h"
#include "engine/lower/plan/uses.h"

namespace wide {
namespace {

class Cutting {
 public:
  Cutting(const RangeProgram& whole, size_t outputs, const std::vector<bool>& keep, int64_t ranges,
          int64_t threads)
      : whole_(whole),
        program_(whole.wide.program),
        main_(main_of(program_)),
        uses_(program_, main_),
        roots_(roots_of(program_)),
        outputs_(outputs),
        ranges_(ranges),
        threads_(threads) {
    for (size_t k = 0; k < keep.size(); ++k)
      if (keep[k]) gradients_.push_back(program_.outputs[outputs + k]);
  }

  Halves run() {
    find_first();
    find_second();
    find_in_outputs();
    Halves halves;
    halves.forward = first_half();
    halves.backward = second_half();
    for (const Saved& s : saved_) halves.saved.push_back({s.value, s.output, s.of_all});
    for (const ValueId id : program_.bound) halves.reads.push_back(read_[id]);
    return halves;
  }

 private:
  struct Saved {
    ValueId id = kNone;
    Value value;
    int64_t output = -1;
    bool of_all = false;
  };

  void find_first() {
    ByValue<bool> needed(program_.values.size(), false);
    for (size_t k = 0; k < outputs_; ++k) needed[program_.outputs[k]] = true;
    for (const Update& u : program_.updates) needed[u.value] = true;
    first_.assign(program_.nodes.size(), false);
    for (size_t i = program_.nodes.size(); i-- > 0;) {
      const Node& node = program_.nodes[i];
      bool in = node.is_random();
      for_each_value(node.results, [&](ValueId id) { in |= needed[id]; });
      first_[i] = in;
      if (in) for_each_value(node.arguments, [&](ValueId id) { needed[id] = true; });
    }
  }

  /// Values of the first half that the second half reads if it recomputes nothing.
  ByValue<bool> read_directly() const {
    ByValue<bool> read(program_.values.size(), false);
    for (const ValueId id : gradients_) read[id] = true;
    for (size_t i = program_.nodes.size(); i-- > 0;) {
      const Node& node = program_.nodes[i];
      if (first_[i] && node.phase != Phase::prologue) continue;
      bool in = false;
      for_each_value(node.results, [&](ValueId id) { in |= read[id]; });
      if (in) for_each_value(node.arguments, [&](ValueId id) { read[id] = true; });
    }
    return read;
  }

  void find_second() {
    ForwardPass forward{first_, read_directly(), ByValue<bool>(program_.values.size(), false)};
    for (size_t k = 0; k < outputs_; ++k)
      if (const ValueId root = uses_.root(program_.outputs[k]); output_holds(k, root))
        forward.in_output[root] = true;
    read_root_ = ByValue<bool>(program_.values.size(), false);
    for (ValueId id = 0; id < read_root_.size(); ++id)
      if (forward.read[id]) read_root_[roots_[id]] = true;
    const ByValue<bool> saved = least_saved(program_, forward);
    read_ = ByValue<bool>(program_.values.size(), false);
    for (const ValueId id : gradients_) read_[id] = true;
    second_.assign(program_.nodes.size(), false);
    for (size_t i = program_.nodes.size(); i-- > 0;) {
      const Node& node = program_.nodes[i];
      bool in = false;
      for_each_value(node.results, [&](ValueId id) { in = in || (read_[id] && !saved[id]); });
      if (in) {  // then all its results are made again
        second_[i] = true;
        for_each_value(node.arguments, [&](ValueId id) { read_[id] = true; });
        continue;
      }
      for_each_value(node.results, [&](ValueId id) {
        if (read_[id] && saved[id]) save(id, node.phase == Phase::shared);
      });
      if (copies(node)) {
        for_each_value(node.results, [&](ValueId result) {
          if (read_[result])
            for_each_value(node.arguments, [&](ValueId id) { mark_bound(roots_[id]); });
        });
      }
    }
    for (const ValueId id : program_.bound)
      if (read_[id] && saved[id]) {
        save(id, false);
        read_[id] = false;
      }
  }

  /// The second half reads a saved copy of `root`: marks its bound tensor as read.
  void mark_bound(ValueId root) {
    if (is_bound(root)) read_[root] = true;
  }

  bool is_bound(ValueId id) const {
    const std::vector<ValueId>& bound = program_.bound;
    return std::ranges::find(bound, id) != bound.end();
  }

  /// A value of its own for the saved copy of bound value `id`; calls read it instead.
  static ValueId copy_of_bound(Program& program, ValueId id) {
    const auto copy = static_cast<ValueId>(program.values.size());
    program.values.push_back(program.value(id));
    for (Node& node : program.nodes)
      for (Argument& argument : node.arguments) std::ranges::replace(argument.values, id, copy);
    return copy;
  }

  void save(ValueId id, bool of_all) {
    Value value = program_.value(id);
    if (!value.strided)
      throw Unsupported(reason("backward", "saved value", "an opaque layout", "one with strides",
                               "another strategy"));
    value.role = Role::input;
    value.name = fmt::format("saved.{}", saved_.size());
    if (!dense(value)) make_contiguous(value);
    saved_.push_back({id, std::move(value), -1, of_all});
  }

  /// Whether output `k` has all elements of `root`, in its order.
  bool output_holds(size_t k, ValueId root) const {
    const ValueId output = program_.outputs[k];
    return uses_.root(output) == root && uses_.covers_root(output) &&
           program_.value(root).contiguous() && program_.value(output).contiguous();
  }

  /// A saved value is not stored if an output has all its elements in order and the second half
  /// reads that output anyway.
  void find_in_outputs() {
    for (Saved& s : saved_)
      for (size_t k = 0; k < outputs_ && s.output < 0; ++k)
        if (read_root_[s.id] && !s.of_all && output_holds(k, s.id))
          s.output = static_cast<int64_t>(k);
  }

  RangeProgram copy_with(const std::vector<bool>& nodes) const {
    RangeProgram half;
    half.wide = whole_.wide;
    half.passes = whole_.passes;
    half.wide.program.regions.clear();
    half.wide.program.keep_nodes(nodes);
    return half;
  }

  std::shared_ptr<const RangeProgram> first_half() const {
    RangeProgram half = copy_with(first_);
    Program& program = half.wide.program;
    program.outputs.resize(outputs_);
    for (const Saved& s : saved_) {
      if (s.output >= 0) continue;
      if (s.of_all) {
        half.asked.push_back(s.id);
        continue;
      }
      half.as_they_lie.insert(program.outputs.size());  // saved with its strides, unlike outputs
      program.outputs.push_back(s.id);
    }
    half.lends_results = true;
    program.verify();
    return std::make_shared<const RangeProgram>(std::move(half));
  }

  std::shared_ptr<const RangeProgram> second_half() const {
    RangeProgram half = copy_with(second_);
    Program& program = half.wide.program;
    program.outputs = gradients_;
    program.updates.clear();
    for (const Saved& s : saved_) {
      const ValueId id = is_bound(s.id) ? copy_of_bound(program, s.id) : s.id;
      program.value(id) = s.value;
      program.bound.push_back(id);
      if (s.output < 0 && !s.of_all) half.placed.push_back(id);
    }
    half.lends_results = true;
    std::vector<bool> again;
    for (size_t i = 0; i < second_.size(); ++i)
      if (second_[i]) again.push_back(first_[i] && program_.nodes[i].phase == Phase::main);
    schedule(program, again, [&](const Program& ordered) {
      const Plan::Memory memory = Plan::memory_of(ordered, half.plan_options());
      return memory.kept_bytes * ranges_ +
             (memory.arena_bytes + memory.fresh_bytes) * std::min(threads_, ranges_);
    });
    program.verify();
    return std::make_shared<const RangeProgram>(std::move(half));
  }

  const RangeProgram& whole_;
  const Program& program_;
  const std::vector<size_t> main_;  // node indices
  const Uses uses_;
  const ByValue<ValueId> roots_;  // through views in all phases
  const size_t outputs_;
  const int64_t ranges_, threads_;
  std::vector<ValueId> gradients_;
  std::vector<bool> first_, second_;  // by node
  ByValue<bool> read_;                // by the second half
  ByValue<bool> read_root_;           // by root: read by the second half if it recomputes nothing
  std::vector<Saved> saved_;
};

}  // namespace

Halves cut(const RangeProgram& whole, size_t outputs, const std::vector<bool>& keep, int64_t ranges,
           int64_t threads) {
  return Cutting(whole, outputs, keep, ranges, threads).run();
}

}  // namespace wide
