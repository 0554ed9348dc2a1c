#include "data/tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/strides.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

struct Names {
  at::ScalarType type;
  const char* file;   // in safetensors
  const char* brief;  // on the command line
};

constexpr Names kNames[] = {
    {at::kFloat, "F32", "f32"},
    {at::kDouble, "F64", "f64"},
    {at::kHalf, "F16", "f16"},
    {at::kBFloat16, "BF16", "bf16"},
    {at::kLong, "I64", "i64"},
    {at::kInt, "I32", "i32"},
    {at::kShort, "I16", "i16"},
    {at::kChar, "I8", "i8"},
    {at::kByte, "U8", "u8"},
    {at::kBool, "BOOL", "bool"},
    {at::kUInt16, "U16", "u16"},
    {at::kUInt32, "U32", "u32"},
    {at::kUInt64, "U64", "u64"},
    {at::kComplexFloat, "C64", "c64"},
    {at::kFloat8_e5m2, "F8_E5M2", "f8_e5m2"},
    {at::kFloat8_e4m3fn, "F8_E4M3", "f8_e4m3"},
};

}  // namespace

at::ScalarType scalar_type(const std::string& dtype, const std::string& name,
                           const std::string& file) {
  for (const Names& n : kNames)
    if (dtype == n.file) return n.type;
  fail("[{}] dtype of tensor {}: got {}, expected one that LibTorch has; try F32", printable(file),
       printable(name), dtype);
}

std::string safetensors_name(at::ScalarType dtype) {
  for (const Names& n : kNames)
    if (dtype == n.type) return n.file;
  fail("[safetensors] dtype: got {}, expected one that the format has; try f32",
       c10::toString(dtype));
}

std::string short_name(at::ScalarType dtype) {
  for (const Names& n : kNames)
    if (dtype == n.type) return n.brief;
  return c10::toString(dtype);
}

std::optional<at::ScalarType> parse_dtype(const std::string& name) {
  for (const Names& n : kNames)
    if (name == n.brief) return n.type;
  return std::nullopt;
}

at::Tensor tensor_over(const std::shared_ptr<const void>& owner, char* data, at::IntArrayRef sizes,
                       at::ScalarType dtype, at::OptionalIntArrayRef strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return at::empty(sizes, dtype);
  const c10::DimVector steps =
      strides ? c10::DimVector(strides->begin(), strides->end()) : c10::contiguous_strides(sizes);
  if (reinterpret_cast<uintptr_t>(data) % c10::elementSize(dtype) == 0)
    return at::from_blob(
        data, sizes, steps, [owner](void*) {}, dtype);
  // Copies the elements between those of the tensor too: at most as many as the file has.
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * steps[i];
  const at::Tensor flat = at::empty({last + 1}, dtype);
  std::memcpy(flat.mutable_data_ptr(), data, flat.nbytes());
  return flat.as_strided(sizes, steps);
}

std::vector<std::pair<std::string, at::Tensor>> load_tensors(const std::string& path) {
  const auto file = std::make_shared<const safetensors::File>(path);
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& entry : file->index().entries)
    tensors.emplace_back(entry.name, tensor_over(file, file->data(entry), entry.shape,
                                                 scalar_type(entry.dtype, entry.name, path)));
  return tensors;
}

void save_tensors(const std::string& path,
                  const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                  const std::map<std::string, std::string>& metadata) {
  std::vector<at::Tensor> kept;
  std::vector<safetensors::Item> items;
  for (const auto& [name, tensor] : tensors) {
    kept.push_back(tensor.detach().to(at::kCPU).contiguous().resolve_conj().resolve_neg());
    items.push_back({name, safetensors_name(tensor.scalar_type()), tensor.sizes().vec(),
                     kept.back().const_data_ptr()});
  }
  safetensors::write(path, std::move(items), metadata);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

std::string sizes_text(at::IntArrayRef sizes) {
  return fmt::format("[{}]", fmt::join(sizes.begin(), sizes.end(), ", "));
}

}  // namespace wide
