#pragma once
#include <functional>

#include "data/store/connection.h"

// Sweeps from one store file to another. Both functions open their own transactions.
namespace wide {

/// Throws Error if `path` exists or cannot be made; `what` is what would be written there.
void expect_new_store(const std::string& path, const std::string& what);
/// Makes a store that `fill` fills. It appears whole, or not at all; errors advise `advice`.
void make_store(const std::string& path, const std::string& advice,
                const std::function<void(Connection&)>& fill);

/// Writes one sweep as a store of its own. The file must not exist.
void export_sweep(Connection& connection, int64_t sweep, const std::string& path);
/// Adds the sweeps of another store that are not here yet; returns their numbers here.
std::vector<int64_t> import_sweeps(Connection& connection, const std::string& path);

}  // namespace wide
