#pragma once
#include <any>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/program.h"

namespace wide {

/// Read-only view of a recorded call's arguments, for claims.
class CallView {
 public:
  CallView(const Program& program, const std::vector<Argument>& arguments)
      : program_(program), arguments_(arguments) {}
  size_t size() const { return arguments_.size(); }
  bool is_tensor(size_t i) const;             // one tensor, present
  ValueId id(size_t i) const;                 // kNone when absent
  const Value& value(size_t i) const;         // metadata of argument i
  const IValue& constant(size_t i) const;     // a number, list, string, None
  std::vector<ValueId> list(size_t i) const;  // a tensor list
  Sizes ints(size_t i) const;                 // int[], also from one int
  bool flag(size_t i) const;
  double number(size_t i, double otherwise) const;
  const Value& meta(ValueId id) const { return program_.value(id); }

 private:
  const Program& program_;
  const std::vector<Argument>& arguments_;
};

/// A recorded call as a call of the primitive or rule that claims it.
struct Claimed {
  std::any config;
  std::vector<ValueId> inputs;  // canonical order, kNone where absent
  /// For each result of the recorded call the index of the strategy's output, -1: not computed
  /// (then the claim holds only if nothing reads it). Empty: result i is output i.
  std::vector<int> results;
};

/// The recorded calls that a claim matches: a composite call (region) or one operator (node).
struct Claim {
  std::string op;  // "aten::linear" or "aten::addmm", any overload
  std::function<std::optional<Claimed>(const CallView&)> match;
};

/// Read-only view of a program's nodes, for patterns.
class PatternView {
 public:
  explicit PatternView(const Program& program) : program_(program), made_by_(program.producers()) {}
  const Node& node(size_t i) const { return program_.nodes[i]; }
  CallView call(size_t i) const { return {program_, program_.nodes[i].arguments}; }
  const Value& meta(ValueId id) const { return program_.value(id); }
  /// The node with first result `id` if its operator is `op` (any overload), else nullopt.
  std::optional<size_t> made_by(ValueId id, const std::string& op) const;
  /// Argument `i` of a node as a number: a constant, or a constant tensor of one element.
  std::optional<double> number(size_t node, size_t i) const;

 private:
  const Program& program_;
  ByValue<int32_t> made_by_;
};

/// A primitive written out by hand: `nodes` compute it together with the pattern's last node.
struct Matched {
  Claimed claimed;
  std::vector<size_t> nodes;  // without the last one
};

/// How to recognise such a group from its last node, an `op`. The claim holds only if results of
/// the other nodes are not read outside the group; it is computed at its last node.
struct Pattern {
  std::string op;
  std::function<std::optional<Matched>(const PatternView&, size_t node)> match;
};

}  // namespace wide
