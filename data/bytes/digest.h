#pragma once
#include <cstddef>
#include <string>

namespace wide {

/// 16 hexadecimal digits that stand for these bytes: others have others. Not against forgery.
std::string digest(const void* data, size_t bytes);
std::string digest(const std::string& text);

}  // namespace wide
