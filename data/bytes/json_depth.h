#pragma once
#include <string>
#include <string_view>

namespace wide {

/// Throws Error for JSON that nests deeper than what recurses over it has stack for. `file` is for
/// the message.
void check_json_depth(std::string_view text, const std::string& file);

}  // namespace wide
