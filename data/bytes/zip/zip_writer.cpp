#include "data/bytes/zip/zip_writer.h"

#include <cstdint>

#include "data/bytes/part_file.h"
#include "data/bytes/refuse.h"
#include "data/bytes/zip/crc32.h"

namespace wide::zip {
namespace {

constexpr uint64_t kMost = UINT32_MAX;
constexpr int kFirstOfJanuary1980 = 0x21;

class Numbers {
 public:
  Numbers& u16(uint64_t number) { return put(number, 2); }
  Numbers& u32(uint64_t number) { return put(number, 4); }
  Numbers& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Numbers& put(uint64_t number, int size) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(number >> (8 * i));
    return *this;
  }
  std::string bytes_;
};

/// Writes the fields that the local header and the directory share.
void describe(Numbers& to, const Item& item, uint32_t crc, uint64_t size) {
  to.u16(20).u16(0).u16(0).u16(0).u16(kFirstOfJanuary1980);
  to.u32(crc).u32(size).u32(size).u16(item.name.size()).u16(0);
}

}  // namespace

void write(const std::string& path, const std::vector<Item>& items) {
  PartFile file(path);
  Numbers directory;
  uint64_t place = 0;
  const auto put = [&](std::string_view bytes) {
    file.write(bytes.data(), bytes.size());
    place += bytes.size();
  };
  for (const Item& item : items) {
    uint64_t size = 0;
    uint32_t crc = 0;
    for (const std::string_view part : item.parts) {
      size += part.size();
      crc = crc32(part, crc);
    }
    if (place + size > kMost / 2)
      throw Error(fmt::format("[{}] size: got more than {} of arrays, expected less in one .npz; "
                              "try .safetensors",
                              printable(path), bytes_text(static_cast<double>(kMost / 2))),
                  1);
    directory.u32(0x02014b50).u16(20);
    describe(directory, item, crc, size);
    directory.u16(0).u16(0).u16(0).u32(0).u32(place).text(item.name);
    Numbers local;
    local.u32(0x04034b50);
    describe(local, item, crc, size);
    put(local.text(item.name).bytes());
    for (const std::string_view part : item.parts) put(part);
  }
  Numbers end;
  end.u32(0x06054b50).u16(0).u16(0).u16(items.size()).u16(items.size());
  end.u32(directory.bytes().size()).u32(place).u16(0);
  put(directory.bytes());
  put(end.bytes());
  file.commit();
}

}  // namespace wide::zip
