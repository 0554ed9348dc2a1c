#pragma once
#include "data/store/connection.h"

// Fusions in the tables. Every function works inside the transaction that `Store` has opened.
namespace wide {

/// `document` as `fuse_document` makes it.
int64_t insert_fuse(Connection& connection, const nlohmann::ordered_json& document);
std::vector<FuseRow> list_fusions(Connection& connection, int64_t limit, int64_t offset);
FuseReport read_fuse(Connection& connection, int64_t fuse);

}  // namespace wide
