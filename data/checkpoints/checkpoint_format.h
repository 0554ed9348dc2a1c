#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// The contents of a checkpoint file in any format: names, dtypes, sizes, strides and byte ranges.
// Parsing knows no LibTorch; tensors are made in data/checkpoints/checkpoint_file.h.
namespace wide {

/// A range of a file, in bytes.
struct ByteRange {
  uint64_t begin = 0, end = 0;
};

struct StoredTensor {
  std::string name;   // keys of nested containers joined by dots: "state_dict.fc.weight"
  size_t nested = 0;  // length of the containers' part of the name: 11 in this example
  std::string dtype;  // its name in safetensors: "F32"
  std::vector<int64_t> sizes = {}, strides = {};  // strides in elements
  ByteRange range = {};                           // from its first element to its last
  bool big_endian = false;
};

struct CheckpointIndex {
  std::vector<StoredTensor> tensors;
  /// For a sharded checkpoint: files in the same folder, and the names of the tensors in each.
  std::map<std::string, std::vector<std::string>> parts;
};

/// A kind of file that holds the weights of one model. Registers itself at static initialisation.
struct CheckpointFormat {
  std::string name;                     // "safetensors"
  std::vector<std::string> extensions;  // ".safetensors": files to find in a folder
  int order = 0;  // in a folder, files of the lowest order are taken: an index, not its parts
  std::function<bool(std::string_view bytes)> probe;
  /// Throws Error for every breach of the format's rules; `file` is only for messages.
  std::function<CheckpointIndex(std::string_view bytes, const std::string& file)> parse;
};
bool add_checkpoint_format(CheckpointFormat format);
/// All formats, sorted by name.
const std::vector<CheckpointFormat>& checkpoint_formats();

/// The format, recognised by the bytes, not by the file's name. Throws Error if there is none.
const CheckpointFormat& checkpoint_format(std::string_view bytes, const std::string& file);

/// Bits of one element of a safetensors dtype (and of C128), or 0 for any other text.
int dtype_bits(std::string_view dtype);

/// The number of elements, or -1 if there are more than 2^63 - 1.
int64_t count_elements(const std::vector<int64_t>& sizes);

/// Strides of a tensor without gaps, last dimension fastest.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes);

}  // namespace wide
