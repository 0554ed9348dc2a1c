#include "data/bytes/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "data/datasets/dataset.h"
#include "data/tensors.h"

namespace wide::safetensors_dataset {
namespace {

/// Whether the file begins with a header's length and a JSON object.
bool probe(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  char begin[9] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
  uint64_t length;
  std::memcpy(&length, begin, sizeof length);
  return begin[8] == '{' && length < std::filesystem::file_size(path, error);
}

Dataset load(const std::string& path) {
  Dataset data;
  for (auto& [name, values] : load_tensors(path)) data.columns.push_back({name, std::move(values)});
  return data;
}

const bool registered = add_dataset_format({"safetensors", {".safetensors"}, 0, probe, load});

}  // namespace
}  // namespace wide::safetensors_dataset
