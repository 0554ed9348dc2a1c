#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wide {

/// Marks a file as a store of this program (`PRAGMA application_id`): "WIDE".
inline constexpr int64_t kStoreId = 0x57494445;

/// What makes a store of version i one of version i + 1, as SQL; the first makes the first tables.
/// A released step never changes: a new version is a new step at the end. `PRAGMA user_version`
/// is the number of steps a file has seen.
const std::vector<std::string>& store_migrations();

/// The version this program writes.
int64_t store_version();

}  // namespace wide
