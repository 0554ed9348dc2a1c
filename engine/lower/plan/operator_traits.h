#pragma once
#include <functional>
#include <optional>

#include "engine/program.h"

namespace wide {

/// A node's call with the weight laid out once per set of weights and an activation behind it.
struct PackedCall {
  c10::OperatorHandle op;
  Stack stack;  // arguments; [0] input, [1] weight and [2] bias are filled by the caller
  std::function<Tensor(const Tensor& weight)> pack;
  double packed_ns = 0, plain_ns = 0;  // medians of a call either way
};

/// A node whose arguments begin with input, weight and bias, and what its plan knows of it.
struct PackRequest {
  const Node& node;
  const Value &input, &result;
  Tensor weight, bias;     // samples; the bias undefined where there is none
  std::string activation;  // to be done with it, and to be timed with the plain form; "" for none
  bool serial = false;     // to be run single-threaded, as a range among others
};

/// What a plan may do with an operator besides calling it. Registered where its kernel is.
struct OperatorTraits {
  std::string op;         // "wide::layer_norm", all its overloads
  bool in_place = false;  // its out-form may write over an argument of the result's layout
  bool cheap = false;     // element-wise: a backward pass makes its result again from what is kept
  /// Activations that it can do itself, by the first word of `activation_text`: the texts are
  /// values of its argument `activation`, or what `pack` may be asked for.
  std::vector<std::string> absorbs = {};
  /// Before the activation it can add a tensor of the result's layout: its argument `residual`.
  bool adds = false;
  /// Of an operator that pools planes: what it makes of each, in words, if planes lie one after the
  /// other in its argument and in its result; else "".
  std::function<std::string(const Program&, const Node&)> pool_text = {};
  /// Whether behind the activation it can do a pooling of these words to a result like this, given
  /// as its argument `pool`, with " then " and an activation behind that where there is one.
  std::function<bool(const std::string& pool_text, const Value& result)> pools = {};
  /// Measures the packed call against the plain one, on tensors of the planned sizes and strides;
  /// nullopt where there is none. Which one is run is the plan's affair.
  std::function<std::optional<PackedCall>(const PackRequest&)> pack = {};
};

/// Registers at static initialisation; returns true so that it can initialise a constant.
bool add_operator_traits(OperatorTraits traits);
/// Those registered for the operator, or none at all.
const OperatorTraits& operator_traits(const c10::OperatorHandle& op);

/// What ATen calls a function of one tensor, with its variant, and the numbers it takes: "relu",
/// "gelu_tanh", "elu 1 1 1"; "" for any other node.
std::string activation_text(const Node& node);

}  // namespace wide
