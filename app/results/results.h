#pragma once
#include <string>

#include "data/reports/sweep/report.h"
#include "data/store/store.h"

namespace wide {

/// A sweep by what users type: a number, a name, `last`, or a report's JSON file. A reference's
/// name comes before a sweep's; of several sweeps of one name the latest counts. `db_option` is
/// `--db`. Throws Error that names what was looked for and where.
/// `also`: what else may be typed there.
SweepReport find_sweep(const std::string& which, const std::string& db_option,
                       const std::string& also = "");

/// The number of a stored sweep, by the same words but files.
int64_t find_stored(Store& store, const std::string& which, const std::string& path,
                    const std::string& also = "");

/// Of commands that take training runs too.
inline const std::string kOrRun = ", or a run's folder, run:3 or run:last";

}  // namespace wide
