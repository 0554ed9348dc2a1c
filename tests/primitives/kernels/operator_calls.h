#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>
#include <vector>

namespace wide::testing {

/// One call of an operator of this project, and what it shall compute.
struct OperatorCall {
  std::vector<c10::IValue> stack;
  at::Tensor expected;  // the first result in float64, computed without our kernels
  /// The first result made comparable, where it is packed, drawn or compared in another form.
  std::function<at::Tensor(const at::Tensor&)> read = nullptr;
};

/// A call of one operator by the dtype of its real arguments, and that of its masks or indices.
struct CallsOf {
  std::string op;        // "wide::prelu"
  std::string overload;  // "" but where an operator has several
  std::function<OperatorCall(at::ScalarType dtype, at::ScalarType other)> make;
};

/// Of every operator that primitives/ registers. Each model has weights and inputs of its own.
std::vector<CallsOf> operator_calls();

}  // namespace wide::testing
