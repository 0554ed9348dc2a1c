#pragma once
#include <cstddef>
#include <string>

namespace wide {

/// A hash of the bytes as 16 hexadecimal digits. Not cryptographic.
std::string digest(const void* data, size_t bytes);
std::string digest(const std::string& text);

}  // namespace wide
