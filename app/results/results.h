#pragma once
#include <string>

#include "data/reports/report.h"
#include "data/store/store.h"

namespace wide {

/// A sweep by what users type: a number, a name, `last`, or a report's JSON file. A reference's
/// name comes before a sweep's; of several sweeps of one name the latest counts. `db_option` is
/// `--db`. Throws Error that names what was looked for and where.
SweepReport find_sweep(const std::string& which, const std::string& db_option);

/// The number of a stored sweep, by the same words but files.
int64_t find_stored(Store& store, const std::string& which, const std::string& path);

}  // namespace wide
