#pragma once
#include "data/store/rows.h"

// How the parts that sweeps and fusions share lie in the tables.
namespace wide {

int64_t insert_environment(Connection& connection, Json environment);
Json environment_object(Connection& connection, int64_t id);
/// Deletes what nothing refers to any more.
void drop_environment(Connection& connection, int64_t id);

/// `json` is the timing's own, without its samples.
void insert_timing(Connection& connection, const std::vector<Key>& keys, Json& json,
                   const std::vector<double>& samples);
/// The samples of the timings that `of_timing` (a condition on `timing` with one parameter)
/// selects, by the timing's id.
std::map<int64_t, std::vector<double>> samples_of(Connection& connection,
                                                  const std::string& of_timing, int64_t value);

}  // namespace wide
