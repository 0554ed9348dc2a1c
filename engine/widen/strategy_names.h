#pragma once
#include <map>
#include <string>

namespace wide {

/// Throws Error if a key is no rule's name (nor "*" for all), or a value none of its strategies
/// (nor vmap or per_model, which all have).
void check_strategy_names(const std::map<std::string, std::string>& strategies);

}  // namespace wide
