#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// NumPy's array files, .npy: bytes to a dtype, sizes and a range of bytes, and back. Knows no
// LibTorch; safe for any bytes.
namespace wide::npy {

struct Array {
  std::string dtype;  // of safetensors: "F32", "U8"
  std::vector<int64_t> shape;
  bool column_major = false;
  uint64_t begin = 0, end = 0;  // from the start of the file
};

/// Whether the bytes begin as a .npy file does.
bool probe(std::string_view bytes);
/// Reads and checks all but the values; `file` is only for messages. Throws Error for objects
/// (pickles), texts, records, big-endian numbers, and a file of another length than its header's.
Array parse(std::string_view bytes, const std::string& file);

/// The header of a row-major array's file.
std::string header(const std::string& dtype, const std::vector<int64_t>& shape);

}  // namespace wide::npy
