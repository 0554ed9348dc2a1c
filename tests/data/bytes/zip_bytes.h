#pragma once
#include <cstring>
#include <string>
#include <vector>

namespace wide {

/// A zip record to be written, with the lies that a test wants told about it.
struct ZipRecord {
  std::string name, bytes = {};
  uint32_t crc32 = 0;
  uint16_t flags = 0, method = 0;
  std::string local_name = {};  // in the local header; "": the same
  int64_t header = -1;          // where the directory says that it is; -1: where it is
  int64_t size = -1;            // in the directory; -1: the right one
  std::string local_extra = {}, extra = {};
};

template <class Number>
void put(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// The bytes of a zip archive of stored records; `count` is what its end record states.
inline std::string zip_bytes(const std::vector<ZipRecord>& records, int64_t count = -1,
                             const std::string& comment = "") {
  std::string out, directory;
  for (const ZipRecord& r : records) {
    const std::string local = r.local_name.empty() ? r.name : r.local_name;
    const auto here = static_cast<uint32_t>(r.header < 0 ? out.size() : r.header);
    const auto size = static_cast<uint32_t>(r.size < 0 ? r.bytes.size() : r.size);
    put<uint32_t>(out, 0x04034b50);
    for (const uint16_t v : {uint16_t{20}, r.flags, r.method, uint16_t{0}, uint16_t{0}})
      put<uint16_t>(out, v);
    for (const uint32_t v : {r.crc32, size, size}) put<uint32_t>(out, v);
    put<uint16_t>(out, static_cast<uint16_t>(local.size()));
    put<uint16_t>(out, static_cast<uint16_t>(r.local_extra.size()));
    out += local + r.local_extra + r.bytes;

    put<uint32_t>(directory, 0x02014b50);
    for (const uint16_t v :
         {uint16_t{20}, uint16_t{20}, r.flags, r.method, uint16_t{0}, uint16_t{0}})
      put<uint16_t>(directory, v);
    for (const uint32_t v : {r.crc32, size, size}) put<uint32_t>(directory, v);
    put<uint16_t>(directory, static_cast<uint16_t>(r.name.size()));
    put<uint16_t>(directory, static_cast<uint16_t>(r.extra.size()));
    for (int i = 0; i < 3; ++i) put<uint16_t>(directory, 0);
    put<uint32_t>(directory, 0);
    put<uint32_t>(directory, here);
    directory += r.name + r.extra;
  }
  const auto begin = static_cast<uint32_t>(out.size());
  const auto stated = static_cast<uint16_t>(count < 0 ? records.size() : count);
  out += directory;
  put<uint32_t>(out, 0x06054b50);
  for (const uint16_t v : {uint16_t{0}, uint16_t{0}, stated, stated}) put<uint16_t>(out, v);
  put<uint32_t>(out, static_cast<uint32_t>(directory.size()));
  put<uint32_t>(out, begin);
  put<uint16_t>(out, static_cast<uint16_t>(comment.size()));
  return out + comment;
}

}  // namespace wide
