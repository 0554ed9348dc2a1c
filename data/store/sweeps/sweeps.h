#pragma once
#include "data/store/connection.h"

// Sweeps in the tables. Every function works inside the transaction that `Store` has opened.
namespace wide {

/// Throws where `name` could be taken for a number, `last`, a training run (run:3) or a file.
void check_name(const std::string& what, const std::string& name);
/// A sweep's state for users: `running` becomes `interrupted` if its process has ended.
std::string shown_state(const std::string& state, const std::string& owner);

/// Stores a new sweep and its list of cases, owned by this process; makes a `uuid` if it is empty.
int64_t insert_sweep(Connection& connection, const StoredCases& stored, const std::string& state,
                     const std::string& uuid);
int64_t resume_sweep(Connection& connection, const StoredCases& stored, bool again_disturbed);
StoredCases read_stored_cases(Connection& connection, int64_t sweep);

std::vector<int64_t> missing_cases(Connection& connection, int64_t sweep);
std::map<int64_t, Case> done_cases(Connection& connection, int64_t sweep);
void begin_case(Connection& connection, int64_t sweep, int64_t position);
void add_case(Connection& connection, int64_t sweep, int64_t position, const Case& result);
void add_machine(Connection& connection, int64_t sweep, const Environment& machine);
void append_changes(Connection& connection, int64_t sweep, const std::vector<std::string>& changes);
void finish_sweep(Connection& connection, int64_t sweep, const std::string& state,
                  const std::vector<std::string>& changes);

std::vector<SweepRow> list_sweeps(Connection& connection, int64_t limit, int64_t offset);
std::optional<int64_t> find_sweep(Connection& connection, const std::string& which);
/// Throws Error for one whose process still runs.
void delete_sweep(Connection& connection, int64_t sweep);

}  // namespace wide
