#include "data/bytes/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace wide {

/// FNV-1a over words of 8 bytes, the last one padded with zeros.
std::string digest(const void* data, size_t bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto* from = static_cast<const char*>(data);
  for (size_t at = 0; at < bytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, from + at, std::min<size_t>(8, bytes - at));
    hash = (hash ^ word) * 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

std::string digest(const std::string& text) { return digest(text.data(), text.size()); }

}  // namespace wide
