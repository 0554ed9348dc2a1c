#pragma once
#include <any>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/network.h"
#include "engine/program.h"

namespace wide {

// ------------------------------------------------------------------------------- strategies

/// What a strategy is called with. Inputs are in the primitive's canonical order, wide
/// (`[N, ...]`, shared ones expanded), undefined where absent.
struct WideCall {
  int64_t n = 0;
  Tensors inputs;
  std::vector<bool> shared;  // which inputs were the same for all models
};

/// Yes, or the reason why not: `[conv2d/grouped] groups: got 3, expected ...; try ...`.
using Applies = std::optional<std::string>;

/// One way to compute a wide primitive: dispatcher calls only, no threads, no `.item()`.
struct Strategy {
  std::string name;
  std::string summary;
  /// nullopt when it applies, else the reason. `config` is the primitive's typed configuration.
  std::function<Applies(const std::any& config, const WideCall& call)> applies;
  std::function<Tensors(const std::any& config, const WideCall& call)> run;
  std::function<std::string(const std::any& config)> config_text;  // canonical: the tuning key
  bool only_when_asked = false;  // means something else (one mask for all): never chosen by itself
  bool differentiable = true;
};

/// Read-only look at a recorded call's arguments for claims.
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

/// A recorded call understood as this primitive.
struct Claimed {
  std::any config;
  std::vector<ValueId> inputs;  // canonical order, kNone where absent
  /// For each result of the recorded call the index of the strategy's output, -1: not made
  /// (then the claim holds only if nobody reads it). Empty: result i is output i.
  std::vector<int> results;
};

/// Which recorded calls a primitive recognises: a composite call (region) or one operator (node).
struct Claim {
  std::string op;  // "aten::linear" or "aten::addmm"; the overload does not matter
  std::function<std::optional<Claimed>(const CallView&)> match;
};

/// Read-only look at the nodes of a program, for patterns.
class PatternView {
 public:
  explicit PatternView(const Program& program) : program_(program), made_by_(program.producers()) {}
  const Node& node(size_t i) const { return program_.nodes[i]; }
  CallView call(size_t i) const { return {program_, program_.nodes[i].arguments}; }
  const Value& meta(ValueId id) const { return program_.value(id); }
  /// The node that made `id` as its first result when it is `op` (any overload), else nullopt.
  std::optional<size_t> made_by(ValueId id, const std::string& op) const;
  /// The number that argument `i` of a node stands for: a constant, or a tensor of one element
  /// that is a constant of the program.
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

/// How to recognise such a group from its last node, an `op`. The claim holds only if nothing that
/// the other nodes make is read outside the group; it is computed where its last node stands.
struct Pattern {
  std::string op;
  std::function<std::optional<Matched>(const PatternView&, size_t node)> match;
};

/// A rewrite of two claimed calls in a row into one: `second` reads only the first output of
/// `first`, nobody else does. `rewrite` returns the inputs for `first` alone that give the result
/// of both, or nullopt when these two do not fold.
struct Fold {
  std::string name;           // "batchnorm into convolution"
  std::string first, second;  // primitive names
  std::function<std::optional<Tensors>(const std::any& first_config, const WideCall& first,
                                       const std::any& second_config, const WideCall& second)>
      rewrite;
};
/// Registers at static initialisation.
bool add_fold(Fold fold);
const std::vector<Fold>& folds();

// ---------------------------------------------------------------------------------- targets

enum class Kind { primitive, block, model };
const char* to_string(Kind kind);

/// Axis name to size, in the order of the target's axes: `B16 D256`.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::pair<std::string, int64_t>> axes) : axes_(axes) {}
  int64_t operator[](const std::string& axis) const;  // throws Error naming the axis
  int64_t get(const std::string& axis, int64_t otherwise) const;
  bool has(const std::string& axis) const;
  Shape& set(const std::string& axis, int64_t size);
  std::string text() const;
  const std::vector<std::pair<std::string, int64_t>>& axes() const { return axes_; }

 private:
  std::vector<std::pair<std::string, int64_t>> axes_;
};

struct Sweep {
  std::vector<int64_t> n;
  std::vector<Shape> shapes;
};

/// Inputs that must be refused, with the exact message; for the tests.
struct Refusal {
  Shape shape;
  std::string message;
};

/// A primitive, block or end-to-end model: what `list`, sweeps, tests and tables iterate over.
struct Target {
  std::string name;
  Kind kind = Kind::primitive;
  std::string family;   // "linear", "convolution", "normalization", ...
  std::string summary;  // one line
  std::string formula;  // "y = x Wᵀ + b,  NBI, NOI -> NBO"
  std::string source;   // upstream name, paper
  /// The single model at a shape; throws Error for shapes that must be refused.
  std::function<Network(const Shape&)> network;
  std::map<std::string, Sweep> sweeps;        // quick, full, ci
  std::function<double(const Shape&)> flops;  // of one model's forward
  std::map<at::ScalarType, double> tolerance{{at::kFloat, 2e-4}, {at::kDouble, 1e-10}};
  std::string tolerance_reason;
  std::vector<Refusal> refusals;

  std::vector<Claim> claims;
  std::vector<Pattern> patterns;
  std::vector<Strategy> strategies;    // first: the default
  std::vector<bool> parameter_inputs;  // of the canonical inputs: which are parameters
  /// Of compositions, which claim nothing themselves: strategy name to the strategies it forces on
  /// parts, `{"fused", {{"attention", "fused"}}}`. Beside them: what the engine chooses per part.
  std::map<std::string, std::map<std::string, std::string>> parts;
  std::string file;  // where it is registered, for the count test

  const Strategy* strategy(const std::string& name) const;
  double tolerance_for(at::ScalarType dtype) const;
};

/// Registers at static initialisation; `file` is __FILE__. Returns true.
bool add_target(Target target, const char* file);
#define WIDE_TARGET(make) \
  [[maybe_unused]] static const bool registered = ::wide::add_target(make(), __FILE__)

/// All targets with a network, sorted by kind, then name: what list, sweeps and tests iterate.
const std::vector<const Target*>& targets();
/// All that claim recorded calls: the primitives above and rules without a network of their own.
const std::vector<const Target*>& claimants();
/// Throws Error that names the nearest registered name.
const Target& find_target(const std::string& name);

/// Shorthands that turn typed functions into a Strategy and a Claim.
template <class Config>
Strategy strategy(std::string name, std::string summary,
                  std::function<Tensors(const Config&, const WideCall&)> run,
                  std::function<Applies(const Config&, const WideCall&)> applies = {}) {
  Strategy s;
  s.name = std::move(name);
  s.summary = std::move(summary);
  s.run = [run](const std::any& c, const WideCall& call) {
    return run(std::any_cast<const Config&>(c), call);
  };
  s.config_text = [](const std::any& c) { return std::any_cast<const Config&>(c).text(); };
  s.applies = [applies](const std::any& c, const WideCall& call) {
    return applies ? applies(std::any_cast<const Config&>(c), call) : Applies{};
  };
  return s;
}

/// The reason a strategy gives: `[conv2d/grouped] groups: got 3, expected 1; try unfold`.
std::string reason(const std::string& thing, const std::string& what, const std::string& got,
                   const std::string& expected, const std::string& advice);

}  // namespace wide
