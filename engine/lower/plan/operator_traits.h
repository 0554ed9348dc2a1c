#pragma once
#include <functional>
#include <optional>

#include "engine/program.h"

namespace wide {

/// A call that reads its weight in a packed layout, made once for each set of weights, and applies
/// an activation.
struct PackedCall {
  c10::OperatorHandle op;
  Stack stack;  // arguments; [0] input, [1] weight and [2] bias are filled by the caller
  std::function<Tensor(const Tensor& weight)> pack;
  double packed_ns = 0, plain_ns = 0;  // medians of a call either way
};

/// A node whose first arguments are input, weight and bias, as the argument of a kernel's `pack`.
struct PackRequest {
  const Node& node;
  const Value &input, &result;
  Tensor weight, bias;     // samples; the bias may be undefined
  std::string activation;  // applied to the result, in both timed forms; "" for none
  bool serial = false;     // will run on one thread, as one range of several
};

/// What a plan may do with an operator besides calling it. Registered in the kernel's file.
struct OperatorTraits {
  std::string op;         // "wide::layer_norm", all its overloads
  bool in_place = false;  // its out-form may write over an argument of the result's layout
  bool cheap = false;     // costs little: a backward pass may recompute its result
  bool softmax = false;   // a softmax
  bool product = false;   // a matrix product
  /// Activations that the kernel can apply, by the first word of `activation_text`. The text
  /// becomes its argument `activation`, or goes to `pack`.
  std::vector<std::string> absorbs = {};
  /// Whether it can add a tensor of the result's layout, its argument `residual`, before the
  /// activation.
  bool adds = false;
  /// For an operator that pools planes: window and sizes as text, if the planes of its argument and
  /// of its result are contiguous; else "".
  std::function<std::string(const Program&, const Node&)> pool_text = {};
  /// Whether it can apply this pooling after the activation, with a result like `result`. The text
  /// becomes its argument `pool`, followed by " then " and an activation if there is one.
  std::function<bool(const std::string& pool_text, const Value& result)> pools = {};
  /// Times the packed call beside the plain one, on tensors of the planned sizes and strides;
  /// nullopt if there is no packed call. The plan decides which one runs.
  std::function<std::optional<PackedCall>(const PackRequest&)> pack = {};
};

/// Registers at static initialisation; returns true so that it can initialise a constant.
bool add_operator_traits(OperatorTraits traits);
/// The traits registered for the operator, or default ones.
const OperatorTraits& operator_traits(const c10::OperatorHandle& op);

/// ATen's name of a function of one tensor, with its variant and its numbers: "relu", "gelu_tanh",
/// "elu 1 1 1"; "" for any other node.
std::string activation_text(const Node& node);

}  // namespace wide
