#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/reports/report_tables.h"

// A training run's report as files.
namespace wide {

/// A row for each model; columns are those that all have.
ReportTable models_table(const nlohmann::ordered_json& run);
/// The same.
std::string run_csv(const nlohmann::ordered_json& run);
/// A case for each model; one that diverged has failed.
std::string run_junit(const nlohmann::ordered_json& run);

}  // namespace wide
