#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wide {

/// Joins the stores `parts` of a sweep (`sweep --part`), or the results of several machines
/// (`--each-machine`), in a new store, all samples included. Throws Error, and leaves no file,
/// unless all belong to one sweep, each part or machine once and complete. Returns the number of
/// cases.
int64_t merge_parts(const std::string& path, const std::vector<std::string>& parts);

}  // namespace wide
