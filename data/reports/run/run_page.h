#pragma once
#include <string>
#include <vector>

#include "data/reports/run/run.h"

namespace wide {

/// A training run's report as one HTML page: configurations as a table, learning curves, models as
/// a table. `by`: hyperparameters that make a configuration.
std::string run_html(const RunReport& run, const std::vector<std::string>& by = {});

}  // namespace wide
