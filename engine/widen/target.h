#pragma once
#include <map>

#include "engine/network.h"
#include "engine/train/optimizer/optimizer.h"
#include "engine/widen/rule.h"

namespace wide {

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

/// An axis that a target's shapes have, or may have: `--axis conv2d.groups=4` sets it. One with
/// neither `otherwise` nor `derived` stands in every shape.
struct Axis {
  std::string name;
  std::string meaning;                 // in a few words; what the numbers stand for
  std::optional<int64_t> otherwise{};  // what stands where a shape lacks it,
  std::string derived{};               // or what that follows from: "C", "none: x is [B, D]"

  bool required() const { return !otherwise && derived.empty(); }
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
struct Target : Rule {
  Kind kind = Kind::primitive;
  std::string family;      // "linear", "convolution", "normalization", ...
  std::string formula;     // "y = x Wᵀ + b,  NBI, NOI -> NBO"
  std::string source;      // upstream name, paper
  std::vector<Axis> axes;  // all that `network` reads
  /// The single model at a shape; throws Error for shapes that must be refused.
  std::function<Network(const Shape&)> network;
  std::map<std::string, Sweep> sweeps;        // quick, full, ci; suite: its rows in one
  std::function<double(const Shape&)> flops;  // of one model's forward
  std::map<at::ScalarType, double> tolerance{{at::kFloat, 2e-4}, {at::kDouble, 1e-10}};
  std::string tolerance_reason;

  /// For the tests: shapes beside those of `ci`, odd ones that use every option; what is refused;
  /// and what PyTorch says the single model computes, as Python that sets `y` (a tensor, or a list:
  /// outputs, then buffers that it changed) from the tensors `t` by name and the axes `a`; see
  /// tests/primitives/oracle.py.
  std::vector<Shape> odd_shapes;
  std::vector<Refusal> refusals;
  std::string oracle;

  /// Of compositions, which claim nothing themselves: strategy name to the strategies it forces on
  /// parts, `{"fused", {{"attention", "fused"}}}`. Beside them: what the engine chooses per part.
  std::map<std::string, std::map<std::string, std::string>> parts;

  /// Of networks in suites. `optimised`: the same, of the same tensors, in the fused forms that
  /// people write by hand; a baseline of that name.
  std::function<Network(const Shape&)> optimised;
  DefaultOf optimizer = DefaultOf::step_phase;  // whose default phase `step` takes
  /// Some of its shapes do not fit: what they need is known before anything is computed.
  bool may_not_fit = false;
  /// The axis of samples, first in every input and output, where they have nothing to do with each
  /// other: what is expected of them is then computed one at a time.
  std::string samples;

  double tolerance_for(at::ScalarType dtype) const;
};

/// Registers at static initialisation; `file` is __FILE__. Returns true.
bool add_target(Target target, const char* file);
#define WIDE_TARGET(make) \
  [[maybe_unused]] static const bool registered = ::wide::add_target(make(), __FILE__)

/// All targets, sorted by kind, then name: what list, sweeps and tests iterate.
const std::vector<const Target*>& targets();
/// Throws Error that names the nearest registered name.
const Target& find_target(const std::string& name);

}  // namespace wide
