#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace wide::zip {

/// A record to be written: `parts` one after the other.
struct Item {
  std::string name;
  std::vector<std::string_view> parts;
};

/// Writes an archive of uncompressed records; equal input gives equal bytes. The file gets its name
/// once it is complete. Throws Error (exit code 1), also beyond 4 GB, the limit without zip64.
void write(const std::string& path, const std::vector<Item>& items);

}  // namespace wide::zip
