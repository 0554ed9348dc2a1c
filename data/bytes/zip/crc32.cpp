#include "data/bytes/zip/crc32.h"

#include <array>
#include <cstring>

namespace wide {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

/// Eight bytes at a time: tables[k][b] is the CRC of byte b and k zero bytes.
constexpr Tables make_tables(uint32_t polynomial) {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? polynomial : 0u);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k)
    for (uint32_t b = 0; b < 256; ++b)
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xff];
  return tables;
}

uint32_t checksum(const Tables& tables, std::string_view bytes, uint32_t before) {
  uint32_t crc = ~before;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; i < bytes.size(); ++i)
    crc = (crc >> 8) ^ tables[0][(crc ^ static_cast<unsigned char>(bytes[i])) & 0xff];
  return ~crc;
}

}  // namespace

uint32_t crc32(std::string_view bytes, uint32_t before) {
  static constexpr Tables kTables = make_tables(0xedb88320u);
  return checksum(kTables, bytes, before);
}

uint32_t crc32c(std::string_view bytes) {
  static constexpr Tables kTables = make_tables(0x82f63b78u);
  return checksum(kTables, bytes, 0);
}

}  // namespace wide
