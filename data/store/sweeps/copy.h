#pragma once
#include "data/store/connection.h"
#include "engine/error.h"

// Sweeps from one store file to another. Both functions open their own transactions.
namespace wide {

/// `error` with other advice, and `name` in place of `instead_of`: for stores that no --db names.
Error advised(const Error& error, const std::string& instead_of, const std::string& name,
              const std::string& advice);

/// Writes one sweep as a store of its own. The file must not exist.
void export_sweep(Connection& connection, int64_t sweep, const std::string& path);
/// Adds the sweeps of another store that are not here yet; returns their numbers here.
std::vector<int64_t> import_sweeps(Connection& connection, const std::string& path);

}  // namespace wide
