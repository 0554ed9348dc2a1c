#pragma once
#include "data/store/connection.h"

// Cases, their trials and samples in the tables. Every function works inside the transaction that
// `Store` has opened.
namespace wide {

/// Stores the result of a case. False if it has one already, or there is no such position.
bool insert_case(Connection& connection, int64_t sweep, int64_t position, const Case& result);
/// The report of a sweep's finished cases, in the order of its list of cases.
SweepReport read_sweep(Connection& connection, int64_t sweep);
/// The report without its cases.
SweepReport read_sweep_head(Connection& connection, int64_t sweep);
std::optional<Case> read_case(Connection& connection, int64_t case_id);

}  // namespace wide
