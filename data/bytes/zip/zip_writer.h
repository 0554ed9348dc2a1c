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

/// Writes an archive of records as they are, none compressed: equal input, equal bytes. It appears
/// under its name when it is whole. Throws Error (exit code 1), also beyond the 4 GB of plain
/// archives.
void write(const std::string& path, const std::vector<Item>& items);

}  // namespace wide::zip
