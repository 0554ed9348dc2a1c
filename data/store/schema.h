#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wide {

/// Marks a file as a store of this program (`PRAGMA application_id`): "WIDE".
inline constexpr int64_t kStoreId = 0x57494445;

/// Migrations as SQL: step i makes version i + 1 of version i; the first step creates the tables. A
/// released step never changes: a new version is a new step at the end. `PRAGMA user_version` is
/// the number of steps that a file has had.
const std::vector<std::string>& store_migrations();

/// The version this program writes.
int64_t store_version();

}  // namespace wide
