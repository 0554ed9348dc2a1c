#include "engine/lower/plan/cut.h"

#include <algorithm>

#include "engine/error.h"
#include "engine/lower/plan/uses.h"

namespace wide {
namespace {

class Cutting {
 public:
  Cutting(const RangeProgram& whole, size_t outputs, const std::vector<bool>& keep)
      : whole_(whole),
        program_(whole.wide.program),
        main_(main_of(program_)),
        uses_(program_, main_),
        outputs_(outputs) {
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
    for (const Saved& s : saved_) halves.saved.push_back({s.value, s.output});
    for (const ValueId id : program_.bound) halves.reads.push_back(read_[id]);
    return halves;
  }

 private:
  struct Saved {
    ValueId id = kNone;
    Value value;
    int64_t output = -1;
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

  void find_second() {
    read_ = ByValue<bool>(program_.values.size(), false);
    for (const ValueId id : gradients_) read_[id] = true;
    second_.assign(program_.nodes.size(), false);
    for (size_t i = program_.nodes.size(); i-- > 0;) {
      const Node& node = program_.nodes[i];
      bool in = false;
      for_each_value(node.results, [&](ValueId id) { in |= read_[id]; });
      if (!in) continue;
      if (first_[i] && node.phase == Phase::main && !node.is_view()) {
        for_each_value(node.results, [&](ValueId id) {
          if (read_[id]) save(id);
        });
        if (node.name() == "aten::clone" || node.name() == "aten::_to_copy")
          for_each_value(node.arguments, [&](ValueId id) { mark_bound(uses_.root(id)); });
      } else {
        second_[i] = true;
        for_each_value(node.arguments, [&](ValueId id) { read_[id] = true; });
      }
    }
  }

  /// If `root` is a bound value, notes that the second half reads it, or a saved copy of it.
  void mark_bound(ValueId root) {
    const std::vector<ValueId>& bound = program_.bound;
    if (std::find(bound.begin(), bound.end(), root) != bound.end()) read_[root] = true;
  }

  void save(ValueId id) {
    Value value = program_.value(id);
    if (!value.strided)
      throw Unsupported(reason("backward", "saved value", "an opaque layout", "one with strides",
                               "another strategy"));
    value.role = Role::input;
    value.name = fmt::format("saved.{}", saved_.size());
    if (!dense(value)) make_contiguous(value);
    saved_.push_back({id, std::move(value), -1});
  }

  /// A saved value that is identical to an output needs no memory of its own.
  void find_in_outputs() {
    for (Saved& s : saved_)
      for (size_t k = 0; k < outputs_ && s.output < 0; ++k) {
        const ValueId output = program_.outputs[k];
        if (uses_.root(output) == s.id && uses_.covers_root(output) && s.value.contiguous() &&
            program_.value(output).contiguous())
          s.output = static_cast<int64_t>(k);
      }
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
      half.as_they_lie.insert(program.outputs.size());  // saved with its strides, unlike outputs
      program.outputs.push_back(s.id);
    }
    program.verify();
    return std::make_shared<const RangeProgram>(std::move(half));
  }

  std::shared_ptr<const RangeProgram> second_half() const {
    RangeProgram half = copy_with(second_);
    Program& program = half.wide.program;
    program.outputs = gradients_;
    program.updates.clear();
    for (const Saved& s : saved_) {
      program.value(s.id) = s.value;
      program.bound.push_back(s.id);
    }
    program.verify();
    return std::make_shared<const RangeProgram>(std::move(half));
  }

  const RangeProgram& whole_;
  const Program& program_;
  const std::vector<size_t> main_;  // node indices
  const Uses uses_;
  const size_t outputs_;
  std::vector<ValueId> gradients_;
  std::vector<bool> first_, second_;  // by node
  ByValue<bool> read_;                // by the second half
  std::vector<Saved> saved_;
};

}  // namespace

Halves cut(const RangeProgram& whole, size_t outputs, const std::vector<bool>& keep) {
  return Cutting(whole, outputs, keep).run();
}

}  // namespace wide
