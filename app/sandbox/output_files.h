#pragma once
#include <string>
#include <utility>
#include <vector>

namespace wide {

/// Options and the files that they name: {"--json", "report.json"}.
using OutputFiles = std::vector<std::pair<std::string, std::string>>;

/// Commands call this with their options before they read or write anything. Throws Error (exit
/// code 2) if writing one of `outputs` would replace one of the files `read`, the results store
/// (`db`: the option --db) or another output, even if two different paths name one file. If an
/// output is a folder (`--unstack`), the files that it would replace are its model-*.safetensors.
void check_apart(const OutputFiles& outputs, const std::vector<std::string>& read,
                 const std::string& db = "");

}  // namespace wide
