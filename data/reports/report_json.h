#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/reports/report.h"

// Reports as JSON; report_read.h reads it back.
namespace wide {

/// Of the JSON reports; a reader refuses any other.
inline constexpr int kReportSchema = 2;  // of sweeps and fusions
inline constexpr int kRunSchema = 1;     // of training runs

nlohmann::ordered_json to_json(const Environment& environment);
nlohmann::ordered_json to_json(const FuseReport& report);
nlohmann::ordered_json to_json(const SweepReport& report);
nlohmann::ordered_json to_json(const Case& c);
nlohmann::ordered_json to_json(const Timing& timing);

/// As a file holds it.
std::string report_text(const nlohmann::ordered_json& json);
/// "-" is stdout. Throws Error with exit code 1 where it cannot be written.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace wide
