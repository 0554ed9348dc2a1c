#pragma once
#include <string>
#include <utility>
#include <vector>

namespace wide {

/// Options and the files that they name: {"--json", "report.json"}.
using OutputFiles = std::vector<std::pair<std::string, std::string>>;

/// Throws Error where writing one of `outputs` would replace one of the files `read` or another
/// output, however the two are spelt. Of a folder, what is named model-*.safetensors counts as
/// written.
void check_apart(const OutputFiles& outputs, const std::vector<std::string>& read);

}  // namespace wide
