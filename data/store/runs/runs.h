#pragma once
#include "data/store/connection.h"

// Training runs in the tables. Every function works inside the transaction that `Store` has opened.
namespace wide {

std::string insert_run(Connection& connection, const nlohmann::ordered_json& document,
                       const std::string& run, int64_t step);
void insert_run_rows(Connection& connection, const nlohmann::ordered_json& rows);
void finish_run(Connection& connection, const std::string& run,
                const nlohmann::ordered_json& document);
/// Asks a running run to stop `model`, or (-1) the whole run.
void ask_to_stop(Connection& connection, int64_t run, int64_t model);
bool has_requests(Connection& connection, const std::string& run);
/// Takes the requests that were not taken before, in their order.
std::vector<RunRequest> take_requests(Connection& connection, const std::string& run, int64_t step);

std::vector<RunRow> list_runs(Connection& connection, int64_t limit, int64_t offset);
std::optional<int64_t> find_run(Connection& connection, const std::string& which);
/// Adds "models" and "events" of a run to its document.
void add_models_and_events(Connection& connection, int64_t run, nlohmann::ordered_json* document);
nlohmann::ordered_json read_run(Connection& connection, int64_t run);

}  // namespace wide
