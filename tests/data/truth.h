#pragma once
#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

namespace wide {

/// Nested lists of numbers or truth values as a tensor.
inline at::Tensor from_json(const nlohmann::json& value) {
  if (!value.is_array())
    return value.is_boolean() ? at::scalar_tensor(value.get<bool>(), at::kBool)
                              : at::scalar_tensor(value.get<double>());
  std::vector<at::Tensor> parts;
  for (const auto& v : value) parts.push_back(from_json(v));
  return at::stack(parts);
}

}  // namespace wide
