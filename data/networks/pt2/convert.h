#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "data/networks/pt2/schema.h"

// What the schema's plain data is in LibTorch.
namespace wide::pt2 {

/// What an exported graph is run as: its own floating dtype becomes the one asked for, its device
/// the one where the weights are.
struct Setting {
  at::ScalarType from = at::kFloat, to = at::kFloat;
  c10::Device device = c10::kCPU;

  at::ScalarType dtype(at::ScalarType exported) const;
  at::Tensor apply(const at::Tensor& constant) const;
  bool operator==(const Setting&) const = default;
};

/// A constant argument as a value of the operator's type, or nothing when it does not fit there.
std::optional<c10::IValue> constant(const Argument& argument, const c10::TypePtr& type,
                                    std::optional<int32_t> length, const Setting& setting);

/// A number where an operator takes a tensor.
at::Tensor number_tensor(const c10::IValue& number);

}  // namespace wide::pt2
