#pragma once
#include <string>

namespace wide {

std::string version();  // "0.1.0"
std::string
git_state();  // "0123456789ab", with "-dirty" if files were changed; "unknown" without git
std::string version_line();  // both

}  // namespace wide
