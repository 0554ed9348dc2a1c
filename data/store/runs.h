#pragma once
#include "data/store/connection.h"

// Training runs in the tables. Every function works inside the transaction that `Store` has opened.
namespace wide {

std::string insert_run(Connection& connection, const nlohmann::ordered_json& document,
                       const std::string& run, int64_t step);
void insert_run_rows(Connection& connection, const nlohmann::ordered_json& rows);
void finish_run(Connection& connection, const std::string& run,
                const nlohmann::ordered_json& document);
std::vector<RunRow> list_runs(Connection& connection, int64_t limit, int64_t offset);
std::optional<int64_t> find_run(Connection& connection, const std::string& which);
nlohmann::ordered_json read_run(Connection& connection, int64_t run);

}  // namespace wide
