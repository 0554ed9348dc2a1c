#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "data/networks/pt2/schema.h"

// Converts the schema's plain data to LibTorch's values.
namespace wide::pt2 {

/// Dtype and device in which an exported graph runs: its own floating dtype is replaced by the one
/// asked for, its device by that of the weights.
struct Setting {
  at::ScalarType from = at::kFloat, to = at::kFloat;
  c10::Device device = c10::kCPU;

  at::ScalarType dtype(at::ScalarType exported) const;
  at::Tensor apply(const at::Tensor& constant) const;
  bool operator==(const Setting&) const = default;
};

/// A constant argument as a value of the operator's declared type; nullopt if it does not fit.
std::optional<c10::IValue> constant(const Argument& argument, const c10::TypePtr& type,
                                    std::optional<int32_t> length, const Setting& setting);

/// Whether an argument is a number or a list of them, or names of such.
bool holds_numbers(const Argument& argument);
/// An item of an argument that holds numbers.
c10::IValue number_value(const Item& item, Argument::Kind kind);

/// A number as a tensor, for an operator that takes a tensor there.
at::Tensor number_tensor(const c10::IValue& number);

}  // namespace wide::pt2
