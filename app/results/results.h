#pragma once
#include <string>

#include "data/reports/sweep/report.h"
#include "data/store/store.h"

namespace wide {

/// Finds a sweep by a number, a name, `last`, or a report's JSON file. A reference's name comes
/// before a sweep's; of several sweeps with one name the latest is taken. `db_option` is the text
/// of `--db`; `also` names other accepted values in the error. Throws Error that names what was
/// looked for and where.
SweepReport find_sweep(const std::string& which, const std::string& db_option,
                       const std::string& also = "");

/// The number of a stored sweep, found in the same way except by a file.
int64_t find_stored(Store& store, const std::string& which, const std::string& path);

/// The text of `also` for commands that accept training runs too.
inline const std::string kOrRun = ", or a run's folder, run:3 or run:last";

}  // namespace wide
