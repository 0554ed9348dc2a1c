#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/bytes/mapped_file.h"

// The safetensors format by itself: bytes to names, dtypes, sizes and byte ranges, and back.
// Knows no LibTorch; safe for any bytes.
namespace wide::safetensors {

/// One tensor of a file. `begin` and `end` count from the start of the file.
struct Entry {
  std::string name;
  std::string dtype;  // as written: "F32", "BF16", "I64", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

struct Index {
  std::vector<Entry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;

  const Entry* find(std::string_view name) const;
};

/// Bits of one element, or 0 for a dtype that the format does not have.
int bits_of(std::string_view dtype);

/// Reads and checks everything but the values. `file` is only for messages.
/// Throws Error for every breach of the format's rules.
Index parse(std::string_view bytes, const std::string& file);

/// A file mapped into memory. Writing to its data never changes the file.
class File {
 public:
  explicit File(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const Index& index() const { return index_; }
  char* data(const Entry& entry) const { return file_.data() + entry.begin; }

 private:
  MappedFile file_;
  Index index_;
};

/// A tensor to be written.
struct Item {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  const void* data = nullptr;
};

/// Writes a temporary file and renames it, so that `path` never shows a half-written file.
/// Order: widest dtype first (keeps all data aligned), then by name; equal input, equal bytes.
/// Throws Error (exit code 1) if it cannot be written.
void write(const std::string& path, std::vector<Item> items,
           const std::map<std::string, std::string>& metadata = {});

}  // namespace wide::safetensors
