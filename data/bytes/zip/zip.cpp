#include "data/bytes/zip/zip.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "data/bytes/refuse.h"
#include "data/bytes/zip/crc32.h"

namespace wide::zip {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint64_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56,
                   kLocator64Size = 20;
constexpr uint16_t kEncrypted = 1, kSizesFollow = 8, kEncryptedNames = 1 << 13;
constexpr uint16_t kFieldZip64 = 1, kDeflated = 8;
constexpr uint32_t kIn64 = UINT32_MAX;  // the number is in a zip64 field
constexpr size_t kLongestName = 4096;

/// Reads numbers; throws Error for places outside the bytes.
class Bytes {
 public:
  Bytes(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  template <class Number>
  Number at(uint64_t place) const {
    Number number;
    std::memcpy(&number, range(place, sizeof number).data(), sizeof number);
    return number;
  }
  std::string_view range(uint64_t place, uint64_t length) const {
    if (place > bytes_.size() || length > bytes_.size() - place)
      refuse(file_, "zip archive",
             fmt::format("{} bytes wanted from byte {} of {}", length, place, bytes_.size()),
             "them in the file", "fetch the file again");
    return bytes_.substr(place, length);
  }
  uint64_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  const std::string& file_;
};

struct Directory {
  uint64_t count = 0, begin = 0, end = 0;
};

struct Record {
  Entry entry;
  uint64_t header = 0;  // where its local header begins
  uint64_t packed = 0;  // bytes in the archive
  uint16_t flags = 0;
};

/// Finds the end record: the last record, followed only by a comment of the length it states.
uint64_t find_end(const Bytes& bytes, const std::string& file) {
  if (bytes.size() >= kEndSize)
    for (uint64_t comment = 0; comment <= UINT16_MAX && comment + kEndSize <= bytes.size();
         ++comment) {
      const uint64_t place = bytes.size() - kEndSize - comment;
      if (bytes.at<uint32_t>(place) == kEnd && bytes.at<uint16_t>(place + 20) == comment)
        return place;
    }
  refuse(file, "zip archive", "no end record", "one", "fetch the file again");
}

Directory read_end(const Bytes& bytes, const std::string& file) {
  const uint64_t end = find_end(bytes, file);
  Directory directory;
  uint64_t disks = bytes.at<uint16_t>(end + 4) | bytes.at<uint16_t>(end + 6);
  uint64_t here = bytes.at<uint16_t>(end + 8);
  uint64_t size = bytes.at<uint32_t>(end + 12);
  directory.count = bytes.at<uint16_t>(end + 10);
  directory.begin = bytes.at<uint32_t>(end + 16);
  directory.end = end;
  if (end >= kLocator64Size && bytes.at<uint32_t>(end - kLocator64Size) == kLocator64) {
    const uint64_t locator = end - kLocator64Size;
    const auto place = bytes.at<uint64_t>(locator + 8);
    if (place > locator || locator - place < kEnd64Size || bytes.at<uint32_t>(place) != kEnd64)
      refuse(file, "zip archive", fmt::format("a zip64 end record at byte {}", place),
             "one before its locator");
    disks = bytes.at<uint32_t>(place + 16) | bytes.at<uint32_t>(place + 20) |
            bytes.at<uint32_t>(locator + 4);
    here = bytes.at<uint64_t>(place + 24);
    directory.count = bytes.at<uint64_t>(place + 32);
    size = bytes.at<uint64_t>(place + 40);
    directory.begin = bytes.at<uint64_t>(place + 48);
    directory.end = place;
  }
  if (disks || here != directory.count)
    refuse(file, "zip archive", "one part of several", "a whole one");
  if (directory.begin > directory.end || directory.end - directory.begin != size)
    refuse(file, "zip directory", fmt::format("{} bytes from byte {}", size, directory.begin),
           fmt::format("it to end at byte {}", directory.end), "fetch the file again");
  if (directory.count > size / kCentralSize)
    refuse(file, "zip directory", fmt::format("{} records", directory.count),
           fmt::format("at most {} in {} bytes", size / kCentralSize, size));
  return directory;
}

/// Why a name is not a plain path inside the archive, or "".
std::string fault_of(std::string_view name) {
  if (name.empty()) return "an empty one";
  if (name.size() > kLongestName) return fmt::format("{} bytes", name.size());
  if (name.front() == '/') return "an absolute path";
  for (const char c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7f)
      return "a strange character";
  for (size_t begin = 0; begin <= name.size();) {
    const size_t slash = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, slash - begin);
    if (part == ".." || part == ".") return "a path that leaves its folder";
    if (part.empty() && slash != name.size()) return "an empty folder";
    begin = slash + 1;
  }
  return "";
}

/// Reads the numbers that did not fit 32 bits, in the order of the format.
void read_zip64(const Bytes& bytes, uint64_t place, uint64_t length,
                std::array<uint64_t*, 3> wanted, const std::string& name, const std::string& file) {
  const uint64_t end = place + length;
  bool missing = std::any_of(wanted.begin(), wanted.end(), [](auto* w) { return *w == kIn64; });
  while (missing && end - place >= 4) {
    const auto kind = bytes.at<uint16_t>(place);
    const uint64_t size = bytes.at<uint16_t>(place + 2);
    place += 4;
    if (size > end - place) break;
    uint64_t at = place;
    if (kind == kFieldZip64) {
      missing = false;
      for (uint64_t* number : wanted) {
        if (*number != kIn64) continue;
        if (place + size - at < 8) {
          missing = true;
          break;
        }
        *number = bytes.at<uint64_t>(at);
        at += 8;
      }
      break;
    }
    place += size;
  }
  if (missing)
    refuse(file, "zip record " + printable(name), "no 64-bit size", "one in its extra field");
}

/// Reads one entry of the directory and moves `*place` behind it.
Record read_central(const Bytes& bytes, uint64_t* place, const std::string& file,
                    Compressed compressed) {
  const uint64_t at = *place;
  if (bytes.at<uint32_t>(at) != kCentral)
    refuse(file, "zip directory", fmt::format("no record at byte {}", at), "one",
           "fetch the file again");
  Record record;
  record.flags = bytes.at<uint16_t>(at + 8);
  const auto method = bytes.at<uint16_t>(at + 10);
  record.entry.crc32 = bytes.at<uint32_t>(at + 16);
  record.packed = bytes.at<uint32_t>(at + 20);
  record.entry.size = bytes.at<uint32_t>(at + 24);
  const uint64_t name = bytes.at<uint16_t>(at + 28), extra = bytes.at<uint16_t>(at + 30),
                 comment = bytes.at<uint16_t>(at + 32);
  record.header = bytes.at<uint32_t>(at + 42);
  record.entry.name = bytes.range(at + kCentralSize, name);
  const std::string shown = "zip record " + printable(record.entry.name);
  bytes.range(at + kCentralSize + name, extra + comment);
  if (const std::string fault = fault_of(record.entry.name); !fault.empty())
    refuse(file, shown, fault, "a plain path inside the archive");
  if (record.flags & (kEncrypted | kEncryptedNames))
    refuse(file, shown, "it encrypted", "it as it is", "save the file without a password");
  record.entry.compressed = method == kDeflated && compressed == Compressed::taken;
  if (method && !record.entry.compressed)
    refuse(file, shown, fmt::format("it compressed (method {})", method), "it stored as it is",
           "save the file with PyTorch again");
  read_zip64(bytes, at + kCentralSize + name, extra,
             {&record.entry.size, &record.packed, &record.header}, record.entry.name, file);
  if (record.packed != record.entry.size && !record.entry.compressed)
    refuse(file, shown, fmt::format("{} stored bytes of {}", record.packed, record.entry.size),
           "all of them");
  *place = at + kCentralSize + name + extra + comment;
  return record;
}

/// Finds the record's bytes behind its local header, which repeats only part of the directory.
void locate(const Bytes& bytes, Record& record, const std::string& file) {
  const std::string shown = "zip record " + printable(record.entry.name);
  if (bytes.at<uint32_t>(record.header) != kLocal)
    refuse(file, shown, fmt::format("no header at byte {}", record.header), "one",
           "fetch the file again");
  const uint64_t name = bytes.at<uint16_t>(record.header + 26);
  const uint64_t extra = bytes.at<uint16_t>(record.header + 28);
  if (bytes.range(record.header + kLocalSize, name) != record.entry.name)
    refuse(file, shown, "another name in its header", "the same");
  const auto packed = bytes.at<uint32_t>(record.header + 18);
  const bool follows = record.flags & kSizesFollow;
  if (!follows && packed != kIn64 && packed != record.packed)
    refuse(file, shown, fmt::format("{} bytes in its header", packed),
           fmt::format("{} as in the directory", record.packed));
  record.entry.begin = record.header + kLocalSize + name + extra;
  bytes.range(record.entry.begin, record.packed);
  record.entry.end = record.entry.begin + record.packed;
}

}  // namespace

const Entry* Index::find(std::string_view name) const {
  for (const Entry& e : entries)
    if (e.name == name) return &e;
  return nullptr;
}

std::string Index::folder() const {
  if (entries.empty()) return "";
  const std::string& first = entries.front().name;
  const std::string folder = first.substr(0, first.find('/') + 1);
  for (const Entry& e : entries)
    if (e.name.compare(0, folder.size(), folder)) return "";
  return folder;
}

bool probe(std::string_view bytes) {
  return bytes.size() >= kEndSize && !std::memcmp(bytes.data(), &kLocal, sizeof kLocal);
}

Index parse(std::string_view archive, const std::string& file, Compressed compressed) {
  const Bytes bytes(archive, file);
  const Directory directory = read_end(bytes, file);
  std::vector<Record> records;
  std::unordered_set<std::string> names;
  uint64_t place = directory.begin;
  for (uint64_t i = 0; i < directory.count; ++i) {
    Record record = read_central(bytes, &place, file, compressed);
    if (!names.insert(record.entry.name).second)
      refuse(file, "zip record " + printable(record.entry.name), "the same name twice",
             "every name once");
    locate(bytes, record, file);
    const bool is_folder = record.entry.name.back() == '/';
    if (is_folder && record.packed)
      refuse(file, "zip record " + printable(record.entry.name), "a folder with bytes of its own",
             "none");
    if (!is_folder) records.push_back(std::move(record));
  }
  if (place != directory.end)
    refuse(file, "zip directory",
           fmt::format("{} bytes more", directory.end - std::min(place, directory.end)),
           fmt::format("{} records to fill it", directory.count));

  std::ranges::sort(records, {}, &Record::header);
  uint64_t at = 0;
  Index index;
  for (Record& record : records) {
    if (record.header < at || record.entry.end > directory.begin)
      refuse(file, "zip record " + printable(record.entry.name),
             fmt::format("bytes {} to {}", record.header, record.entry.end),
             "bytes of its own: they overlap others");
    at = record.entry.end;
    index.entries.push_back(std::move(record.entry));
  }
  return index;
}

void check_crc(std::string_view archive, const Entry& entry, const std::string& file) {
  const uint32_t crc = crc32(bytes_of(archive, entry));
  if (crc != entry.crc32)
    refuse(file, "zip record " + printable(entry.name), fmt::format("checksum {:08x}", crc),
           fmt::format("{:08x}", entry.crc32), "fetch the file again");
}

}  // namespace wide::zip
