#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/widen/target.h"

namespace wide {

/// Everything known about a target, as `list NAME` shows it.
std::string target_text(const Target& target);
nlohmann::ordered_json target_json(const Target& target);

/// A Markdown page with a row per target of `kind`.
std::string targets_markdown(Kind kind);

}  // namespace wide
