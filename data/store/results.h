#pragma once
#include "data/store/rows.h"

// How the parts that sweeps and trial fusions share lie in the tables.
namespace wide {

int64_t insert_environment(Connection& connection, const Environment& environment);
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

/// Fills in a planned case. False when it is done already, or there is no such position.
bool insert_case(Connection& connection, int64_t sweep, int64_t position, const Case& result);
/// All of a sweep that is done, in the order of its plan.
SweepReport read_sweep(Connection& connection, int64_t sweep);

/// Adds a sweep with its cases planned, owned by this process; an empty `uuid` is made.
int64_t insert_sweep(Connection& connection, const SweepPlan& plan, const std::string& state,
                     const std::string& uuid);
/// Throws where `name` could be taken for a number, `last` or a file.
void check_name(const std::string& what, const std::string& name);
std::vector<CasePlan> planned_cases(Connection& connection, int64_t sweep);
/// A sweep's state as users see it: one that says running and whose process is gone was
/// interrupted.
std::string shown_state(const std::string& state, const std::string& owner);

}  // namespace wide
