#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/bytes/safetensors.h"

namespace wide {

/// The dtype of a safetensors name; throws Error (naming file and tensor) for those without one.
at::ScalarType scalar_type(const std::string& dtype, const std::string& name,
                           const std::string& file);
/// The safetensors name of a dtype; throws Error if the format has none.
std::string safetensors_name(at::ScalarType dtype);
/// "f32", "i64", as the command line and shapes write them.
std::string short_name(at::ScalarType dtype);
/// The dtype of a short name, or nothing.
std::optional<at::ScalarType> parse_dtype(const std::string& name);

/// A tensor over a file's memory, which `owner` keeps alive, if it is aligned for the dtype; else a
/// copy. Without `strides` the elements lie one after the other.
at::Tensor tensor_over(const std::shared_ptr<const void>& owner, char* data, at::IntArrayRef sizes,
                       at::ScalarType dtype, at::OptionalIntArrayRef strides = {});

/// All tensors of a file, by name, in the order of their data.
std::vector<std::pair<std::string, at::Tensor>> load_tensors(const std::string& path);
void save_tensors(const std::string& path,
                  const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                  const std::map<std::string, std::string>& metadata = {});

/// Whether both are equal in dtype, sizes and every bit (NaN equals itself, 0 does not equal -0).
bool same_bits(const at::Tensor& a, const at::Tensor& b);

/// "[3, 64]".
std::string sizes_text(at::IntArrayRef sizes);

}  // namespace wide
