#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace wide {

using at::Tensor;
using c10::IValue;
using Tensors = std::vector<Tensor>;
using Sizes = std::vector<int64_t>;
using Stack = std::vector<IValue>;

using ValueId = int32_t;
constexpr ValueId kNone = -1;

/// A T for every value of a program, indexed by its id.
template <class T>
class ByValue {
 public:
  ByValue() = default;
  explicit ByValue(size_t count, const T& each = T()) : all_(count, each) {}
  typename std::vector<T>::reference operator[](ValueId id) {
    return all_[static_cast<size_t>(id)];
  }
  typename std::vector<T>::const_reference operator[](ValueId id) const {
    return all_[static_cast<size_t>(id)];
  }
  ValueId size() const { return static_cast<ValueId>(all_.size()); }
  void push_back(const T& one) { all_.push_back(one); }

 private:
  std::vector<T> all_;
};

/// Where a value comes from. Callers bind parameters, buffers and inputs.
enum class Role { input, parameter, buffer, constant, intermediate };
const char* to_string(Role role);

/// One tensor of a program. Sizes and strides are those seen when it was recorded.
struct Value {
  Role role = Role::intermediate;
  std::string name;  // of bound values; empty for intermediates
  at::ScalarType dtype = at::kFloat;
  c10::Device device = c10::kCPU;
  Sizes sizes, strides;
  bool strided = true;  // false: an opaque layout without strides
  bool wide = false;    // N-first: sizes[0] is the number of models
  Tensor constant;      // of constants only

  int64_t numel() const;
  int64_t bytes() const;
  bool contiguous() const;
  std::string shape_text() const;  // "f32[4, 16, 256]"
};

/// The same dtype, device, sizes and strides, but for strides of dimensions of size 1.
bool same_layout(const Value& a, const Value& b);

/// An argument or result of a node: a constant, one value, or a list of values (kNone: absent).
struct Argument {
  enum class Kind { constant, value, list, optional_list };
  Kind kind = Kind::constant;
  IValue constant;
  std::vector<ValueId> values;

  static Argument of(IValue v) { return {Kind::constant, std::move(v), {}}; }
  static Argument of_value(ValueId id) { return {Kind::value, {}, {id}}; }
};

/// Where a node comes from: the module of the recorded network, and how it was widened.
struct Origin {
  std::string module;     // "layer1.0.conv1", from the parameters it reads
  std::string primitive;  // the primitive that claimed it, if any
  std::string strategy;   // its strategy; "vmap", "per_model", "shared" for the engine's own
  int32_t node = -1;      // index of the node (or first node of the region) in Program(1)
};

/// When a node runs. main: in each call, for each range of models. prologue: once for a set of
/// weights. shared: in each call once, as its result is the same for all models.
enum class Phase { main, prologue, shared };

struct Node {
  c10::OperatorHandle op;
  std::vector<Argument> arguments;
  std::vector<Argument> results;
  Origin origin;
  Phase phase = Phase::main;
  bool aliases = false;  // returns an argument's memory, whatever its schema says
  bool grad = true;      // called in grad mode; else no gradient flows back

  std::string name() const;  // "aten::addmm", with ".overload" when there is one
  bool is_view() const;      // results alias an argument and nothing is computed
  bool is_random() const;    // tagged nondeterministic_seeded, unless its dropout is off
};

/// A composite call in the flat list of nodes: it called nodes [begin, end).
struct Region {
  c10::OperatorHandle op;
  std::vector<Argument> arguments;
  std::vector<Argument> results;
  int32_t begin = 0, end = 0;
  int32_t depth = 0;
  bool mutates = false;

  std::string name() const;
};

/// A new value for a bound tensor: running statistics, or an input changed in place.
struct Update {
  ValueId target = kNone;
  ValueId value = kNone;
};

/// A flat list of tensor operations without mutation. `n` is 0 for the program of one model.
struct Program {
  int64_t n = 0;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Region> regions;
  std::vector<ValueId> bound;  // inputs, parameters and buffers in the order of binding
  std::vector<ValueId> outputs;
  std::vector<Update> updates;

  /// Throws std::logic_error if a value is used before it is made, made twice, or out of range.
  void verify() const;
  std::string text() const;
  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  ValueId add_value(Value value);
  /// The index in `bound` of a value that is bound.
  size_t bound_at(ValueId id) const;
  /// Lets every reader of `from` (nodes, regions, outputs, updates) read `to` instead.
  void replace_uses(ValueId from, ValueId to);
  /// Keeps the nodes with `keep[i]`, adjusting regions; drops regions whose last node is removed.
  void keep_nodes(const std::vector<bool>& keep);
  /// Removes nodes that no output or update needs; random operators whose results are unused stay,
  /// so that the sequence of random numbers does not depend on it. Returns the number removed.
  int64_t remove_dead_nodes();
  /// For every value the number of reads by nodes, outputs and updates.
  ByValue<int32_t> uses() const;
  /// The outputs, then the updates.
  std::vector<ValueId> results() const;
  /// For every value the node that makes it, or -1.
  ByValue<int32_t> producers() const;
  /// The peak of live bytes if values are freed after their last use, bound values included.
  int64_t peak_bytes() const;
};

/// Calls `visit(ValueId)` for every value an argument names (absent ones skipped).
template <class Visit>
void for_each_value(const std::vector<Argument>& arguments, Visit visit) {
  for (const Argument& a : arguments)
    for (ValueId id : a.values)
      if (id != kNone) visit(id);
}

/// The sizes `[N, sizes...]` of a wide tensor.
inline Sizes wide_sizes(int64_t n, c10::IntArrayRef sizes) {
  Sizes out{n};
  out.insert(out.end(), sizes.begin(), sizes.end());
  return out;
}
/// One model's tensor expanded to n models, `[N, ...]`, without a copy.
inline Tensor expanded(int64_t n, const Tensor& one) {
  return one.unsqueeze(0).expand(wide_sizes(n, one.sizes()));
}

/// A tensor's metadata as a value (role intermediate, no name).
Value describe(const Tensor& tensor);

/// The stack to call `node` with, values looked up by `value`.
Stack make_stack(const std::vector<Argument>& arguments,
                 const std::function<Tensor(ValueId)>& value);
/// Hands every tensor result to `put`; `stack` is the stack after the call.
void take_results(const std::vector<Argument>& results, const Stack& stack,
                  const std::function<void(ValueId, const Tensor&)>& put);

/// Runs the program node by node, and frees values after their last use. `bound` in the order of
/// `program.bound`; returns the outputs, then the updates. Differentiable in grad mode, where the
/// recorded code had it on.
Tensors interpret(const Program& program, const Tensors& bound);

/// The same program computing in float64: floating constants and dtype arguments are raised.
Program raise_to_double(const Program& program);
/// The double-precision dtype for `type`: floating and complex dtypes are raised, others stay.
at::ScalarType raised(at::ScalarType type);

}  // namespace wide
