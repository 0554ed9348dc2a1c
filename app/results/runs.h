#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace wide {

/// A training run's report by what users type: its folder, its report.json, `run:3`, `run:last`, or
/// a number or name that no sweep has. nullopt for what is none of these.
std::optional<nlohmann::ordered_json> try_find_run(const std::string& which,
                                                   const std::string& db_option);
/// Throws Error that names what was looked for and where.
nlohmann::ordered_json find_run(const std::string& which, const std::string& db_option);

}  // namespace wide
