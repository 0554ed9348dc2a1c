#pragma once
#include <cstdint>
#include <string_view>

namespace wide {

/// The checksum of zip archives; `before` is that of the preceding bytes.
uint32_t crc32(std::string_view bytes, uint32_t before = 0);
/// The checksum with Castagnoli's polynomial, which TFRecords use.
uint32_t crc32c(std::string_view bytes);

}  // namespace wide
