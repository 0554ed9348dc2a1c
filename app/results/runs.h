#pragma once
#include <optional>
#include <string>

#include "data/reports/run/run.h"

namespace wide {

/// Finds a training run's report by its folder, its report.json, `run:3`, `run:last`, or a number
/// or name that no sweep has. nullopt if `which` is none of these.
std::optional<RunReport> try_find_run(const std::string& which, const std::string& db_option);
/// The same where only a run can be meant: a number, a name or `last` is a run's also where a sweep
/// has it. Throws Error that names what was looked for and where.
RunReport find_run(const std::string& which, const std::string& db_option);

}  // namespace wide
