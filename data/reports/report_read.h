#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/reports/report.h"

namespace wide {

/// The reverse of report_json.h: every field comes back as it was written. Throws Error (exit code
/// 2) that names the field that is missing or of the wrong kind; `where` is the file, for the
/// message.
Case case_from_json(const nlohmann::ordered_json& json, const std::string& where);
SweepReport sweep_from_json(const nlohmann::ordered_json& json, const std::string& where);
/// Reads a sweep's report file.
SweepReport read_sweep_report(const std::string& path);

}  // namespace wide
