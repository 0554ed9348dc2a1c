#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace wide {

/// A training run's report as one HTML page: configurations as a table, learning curves, models as
/// a table. `by`: hyperparameters that make a configuration.
std::string run_html(const nlohmann::ordered_json& run, const std::vector<std::string>& by = {});

}  // namespace wide
