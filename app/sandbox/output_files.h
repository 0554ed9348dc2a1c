#pragma once
#include <string>
#include <utility>
#include <vector>

namespace wide {

/// Options and the files that they name: {"--json", "report.json"}.
using OutputFiles = std::vector<std::pair<std::string, std::string>>;

/// Commands call this with their options before they read or write anything. Throws Error (exit
/// code 2) where writing one of `outputs` would replace one of the files `read`, or another output,
/// also where two paths name one file. Where an output is a folder (`--unstack`), its files
/// model-*.safetensors are what would be replaced.
void check_apart(const OutputFiles& outputs, const std::vector<std::string>& read);

}  // namespace wide
