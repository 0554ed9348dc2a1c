#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/reports/run/run.h"
#include "data/reports/sweep/report_tables.h"

// A training run's report as files.
namespace wide {

/// A row for each model, from its JSON: a column for each of its fields, and for each entry of its
/// seeds, hyperparameters, labels and values of metrics.
ReportTable models_table(const std::vector<nlohmann::ordered_json>& models);
ReportTable models_table(const RunReport& run);
/// The table of models as CSV.
std::string run_csv(const RunReport& run);
/// JUnit XML with a test case for each model, which fails if the model diverged.
std::string run_junit(const RunReport& run);

}  // namespace wide
