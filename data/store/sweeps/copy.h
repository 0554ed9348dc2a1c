#pragma once
#include "data/store/connection.h"

// Sweeps from one store file to another. Both functions open their own transactions.
namespace wide {

/// Writes one sweep as a store of its own. The file must not exist.
void export_sweep(Connection& connection, int64_t sweep, const std::string& path);
/// Adds the sweeps of another store that are not here yet; returns their numbers here.
std::vector<int64_t> import_sweeps(Connection& connection, const std::string& path);

}  // namespace wide
