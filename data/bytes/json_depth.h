#pragma once
#include <string>
#include <string_view>

namespace wide {

/// Throws Error for JSON that is nested so deeply that a recursive parser would overflow the stack.
/// `file` is for the message.
void check_json_depth(std::string_view text, const std::string& file);

}  // namespace wide
