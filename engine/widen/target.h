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
  Shape(const char* text);                            // "B=16 D=256"
  int64_t operator[](const std::string& axis) const;  // throws Error naming the axis
  int64_t get(const std::string& axis, int64_t otherwise) const;
  bool has(const std::string& axis) const;
  Shape& set(const std::string& axis, int64_t size);
  std::string text() const;
  const std::vector<std::pair<std::string, int64_t>>& axes() const { return axes_; }

 private:
  std::vector<std::pair<std::string, int64_t>> axes_;
};

/// An axis that a target's shapes have, or may have: `--axis conv2d.groups=4` sets it. Axes with
/// neither `otherwise` nor `derived` are required.
struct Axis {
  std::string name;
  std::string meaning;                 // in a few words
  std::optional<int64_t> otherwise{};  // the default size
  std::string derived{};               // or how it follows from others: "C", "none: x is [B, D]"
  int64_t least = 1;                   // the smallest size of a required axis

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
  /// The single model at a shape; throws Error for shapes that must be refused. Shapes with an axis
  /// below its `least` are refused before it is called.
  std::function<Network(const Shape&)> network;
  std::map<std::string, Sweep> sweeps;        // by preset: quick, full, ci, suite
  std::function<double(const Shape&)> flops;  // of one model's forward
  std::map<at::ScalarType, double> tolerance{{at::kFloat, 2e-4}, {at::kDouble, 1e-10}};
  std::string tolerance_reason;

  /// For the tests: more shapes, odd ones that use every option; refused shapes; and the single
  /// model in PyTorch, as Python that sets `y` (a tensor, or a list: outputs, then buffers that it
  /// changed) from the tensors `t` by name and the axes `a`; see tests/primitives/oracle.py.
  std::vector<Shape> odd_shapes;
  std::vector<Refusal> refusals;
  std::string oracle;

  /// For compositions, which claim nothing: by strategy name, the strategies that it forces on
  /// parts, `{"fused", {{"attention", "fused"}}}`. Without one, the engine chooses for each part.
  std::map<std::string, std::map<std::string, std::string>> parts;

  /// For networks in suites: the same network with fused operators as people write it by hand, with
  /// the same tensors; the baseline `optimised`.
  std::function<Network(const Shape&)> optimised;
  DefaultOf optimizer = DefaultOf::step_phase;  // default optimiser of phase `step`
  /// Some of its shapes do not fit into memory: their need is estimated before computing anything.
  bool may_not_fit = false;
  /// The axis of samples, first in every input and output, if samples are independent: expected
  /// results are then computed sample by sample.
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
