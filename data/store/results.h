#pragma once
#include "data/store/rows.h"

// Rows of the tables that sweeps and fusions share: environments, timings, samples.
namespace wide {

int64_t insert_environment(Connection& connection, Json environment);
Json environment_object(Connection& connection, int64_t id);
/// Deletes rows that no other row refers to any more.
void drop_environment(Connection& connection, int64_t id);

/// Adds a timing; `json` is its object without the samples.
void insert_timing(Connection& connection, const std::vector<Key>& keys, Json& json,
                   const std::vector<double>& samples);
/// Reads the samples of the timings that `of_timing` selects, an SQL condition on `timing` with one
/// parameter. By the timing's id.
std::map<int64_t, std::vector<double>> samples_of(Connection& connection,
                                                  const std::string& of_timing, int64_t value);

}  // namespace wide
