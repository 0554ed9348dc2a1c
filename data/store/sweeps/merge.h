#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wide {

/// Writes a new store with the sweep that those in the stores `parts` are parts of (`sweep
/// --part`), or with what several machines each measured (`--each-machine`). Throws Error where
/// they do not all belong to one sweep, each part or machine once and complete; then there is no
/// file. Returns how many cases it has.
int64_t merge_parts(const std::string& path, const std::vector<std::string>& parts);

}  // namespace wide
