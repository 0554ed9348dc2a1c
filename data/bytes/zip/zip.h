#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Zip archives as PyTorch writes them, with uncompressed records: from bytes to names and byte
// ranges. Knows no LibTorch; safe for any bytes.
namespace wide::zip {

/// One record. `begin` and `end` of its bytes count from the start of the archive.
struct Entry {
  std::string name;
  uint64_t begin = 0, end = 0;
  uint64_t size = 0;  // of its content, uncompressed
  bool compressed = false;
  uint32_t crc32 = 0;  // as written; PyTorch has an option that leaves it wrong
};

struct Index {
  std::vector<Entry> entries;  // in the order of their bytes

  const Entry* find(std::string_view name) const;
  /// The folder that all records lie in, with its slash ("archive/"), or "".
  std::string folder() const;
};

/// True for bytes that begin as a zip archive does.
bool probe(std::string_view bytes);

/// Whether `parse` accepts compressed records, such as TorchScript's code.
enum class Compressed { refused, taken };

/// Reads and checks the directory, not the records' bytes. A record may be an archive itself: call
/// this on its bytes. `file` is only for messages. Throws Error for
/// compressed or encrypted records, several parts, names that are duplicate or lead out of the
/// archive, and records that overlap or exceed the file.
Index parse(std::string_view bytes, const std::string& file,
            Compressed compressed = Compressed::refused);

/// The bytes of a record, as stored in the archive.
inline std::string_view bytes_of(std::string_view archive, const Entry& entry) {
  return archive.substr(entry.begin, entry.end - entry.begin);
}

/// Throws Error if a record's bytes do not match its checksum.
void check_crc(std::string_view archive, const Entry& entry, const std::string& file);

}  // namespace wide::zip
