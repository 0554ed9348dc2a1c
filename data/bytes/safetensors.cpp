#include "data/bytes/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "data/bytes/part_file.h"
#include "data/bytes/refuse.h"

namespace wide::safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint64_t kMaxHeader = 100'000'000;

/// Computes the bytes of a tensor. False if there are 2^64 bits or more, or if 4-bit or 6-bit
/// elements do not fill whole bytes.
bool size_of(const std::vector<int64_t>& shape, int bits, uint64_t* bytes) {
  uint64_t count = static_cast<uint64_t>(bits);
  *bytes = 0;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(size), &count)) return false;
  *bytes = count / 8;
  return count % 8 == 0;
}

/// Parses the header with JSON events: a DOM would drop duplicate keys without a word. An object or
/// array where the format has none is refused, so that nesting cannot grow.
class Header : public nlohmann::json_sax<nlohmann::json> {
 public:
  Header(const std::string& file, uint64_t buffer) : file_(file), buffer_(buffer) {}

  Index take() { return std::move(index_); }

  bool null() override { return scalar("null"); }
  bool boolean(bool v) override { return scalar(v ? "true" : "false"); }
  bool number_integer(number_integer_t v) override { return scalar(fmt::format("{}", v)); }
  bool number_float(number_float_t, const string_t& text) override { return scalar(text); }
  bool binary(binary_t&) override { return scalar("binary"); }

  bool number_unsigned(number_unsigned_t v) override {
    if (place_ != Place::shape && place_ != Place::offsets) return scalar(fmt::format("{}", v));
    if (place_ == Place::shape) {
      if (v > static_cast<uint64_t>(INT64_MAX))
        refuse(file_, "shape of " + where(), fmt::format("{}", v), "a size below 2^63");
      entry_.shape.push_back(static_cast<int64_t>(v));
    } else {
      offsets_.push_back(v);
    }
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::metadata) {
      index_.metadata[key_] = text;
      return true;
    }
    if (place_ != Place::dtype) return scalar('"' + printable(text, 40) + '"');
    if (!bits_of(text))
      refuse(file_, "dtype of " + where(), printable(text, 40),
             "a dtype of the format such as F32");
    entry_.dtype = text;
    place_ = Place::entry;
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::start) {
      place_ = Place::top;
    } else if (place_ == Place::name) {
      place_ = key_ == "__metadata__" ? Place::metadata : Place::entry;
      entry_ = {};
      entry_.name = key_;
      offsets_.clear();
      seen_.clear();
    } else {
      return scalar("an object");
    }
    return true;
  }

  bool key(string_t& text) override {
    if (place_ == Place::top) {
      if (!names_.insert(text).second)
        refuse(file_, "name " + printable(text), "the same name twice", "every name once");
      key_ = text;
      place_ = Place::name;
      return true;
    }
    if (!seen_.insert(text).second)
      refuse(file_, fmt::format("key {} of {}", printable(text), where()), "it twice",
             "every key once");
    key_ = text;
    if (place_ == Place::metadata) return true;
    if (text == "dtype")
      place_ = Place::dtype;
    else if (text == "shape")
      place_ = Place::before_shape;
    else if (text == "data_offsets")
      place_ = Place::before_offsets;
    else
      refuse(file_, "keys of " + where(), printable(text, 40),
             "dtype, shape and data_offsets only");
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry) finish_entry();
    place_ = place_ == Place::top ? Place::start : Place::top;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::before_shape)
      place_ = Place::shape;
    else if (place_ == Place::before_offsets)
      place_ = Place::offsets;
    else
      return scalar("an array");
    return true;
  }

  bool end_array() override {
    place_ = Place::entry;
    return true;
  }

  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error ..."
    std::string text = e.what();
    if (const size_t colon = text.find(": "); colon != std::string::npos)
      text = text.substr(colon + 2);
    refuse(file_, "header", fmt::format("bad JSON at byte {} ({})", at, printable(text, 100)),
           "a JSON object in UTF-8");
  }

 private:
  enum class Place {
    start,
    top,
    name,  // after a tensor's name
    metadata,
    entry,
    dtype,
    before_shape,
    shape,
    before_offsets,
    offsets
  };

  std::string where() const {
    return place_ == Place::metadata ? "__metadata__" : "tensor " + printable(entry_.name);
  }

  /// Refuses a value at a place where the format has none.
  bool scalar(const std::string& got) {
    switch (place_) {
      case Place::start:
      case Place::top:
        refuse(file_, "header", got, "a JSON object");
      case Place::name:
        refuse(file_, "entry " + printable(key_), got, "an object");
      case Place::metadata:
        refuse(file_, fmt::format("__metadata__ {}", printable(key_)), got, "a string");
      case Place::dtype:
        refuse(file_, "dtype of " + where(), got, "a string");
      case Place::before_shape:
        refuse(file_, "shape of " + where(), got, "an array");
      case Place::before_offsets:
        refuse(file_, "data_offsets of " + where(), got, "an array of two numbers");
      case Place::shape:
        refuse(file_, "shape of " + where(), got, "unsigned integers");
      case Place::offsets:
        refuse(file_, "data_offsets of " + where(), got, "unsigned integers");
      case Place::entry:
        break;
    }
    refuse(file_, where(), got, "a key");
  }

  void finish_entry() {
    for (const char* key : {"dtype", "shape", "data_offsets"})
      if (!seen_.count(key)) refuse(file_, where(), fmt::format("no {}", key), "one");
    if (offsets_.size() != 2)
      refuse(file_, "data_offsets of " + where(), fmt::format("{} numbers", offsets_.size()), "2");
    const uint64_t begin = offsets_[0], end = offsets_[1];
    if (begin > end)
      refuse(file_, "data_offsets of " + where(), fmt::format("[{}, {}]", begin, end),
             "begin <= end");
    if (end > buffer_)
      refuse(file_, "data_offsets of " + where(), fmt::format("end {}", end),
             fmt::format("at most {}, the bytes of data there are", buffer_),
             "fetch the file again");
    uint64_t bytes = 0;
    const std::string shape = fmt::format("{} [{}]", entry_.dtype, fmt::join(entry_.shape, ", "));
    if (!size_of(entry_.shape, bits_of(entry_.dtype), &bytes))
      refuse(file_, "shape of " + where(), shape, "a size in whole bytes below 2^64");
    if (bytes != end - begin)
      refuse(file_, "size of " + where(), fmt::format("{} bytes", end - begin),
             fmt::format("{} for {}", bytes, shape));
    entry_.begin = begin;
    entry_.end = end;
    index_.entries.push_back(entry_);
  }

  const std::string& file_;
  uint64_t buffer_;
  Index index_;
  Place place_ = Place::start;
  Entry entry_;
  std::vector<uint64_t> offsets_;
  std::string key_;
  std::set<std::string> names_, seen_;
};

/// Throws Error unless every byte of data belongs to exactly one tensor.
void check_cover(std::vector<Entry>& entries, uint64_t buffer, const std::string& file) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t at = 0;
  for (const Entry& e : entries) {
    if (e.begin < at)
      refuse(file, "tensor " + printable(e.name), fmt::format("data from byte {}", e.begin),
             fmt::format("{}: it overlaps the tensor before it", at));
    if (e.begin > at)
      refuse(file, "tensor " + printable(e.name), fmt::format("data from byte {}", e.begin),
             fmt::format("from byte {}, as no tensor has the bytes between", at));
    at = e.end;
  }
  if (at != buffer)
    refuse(file, "data", fmt::format("{} bytes", buffer),
           fmt::format("{}: the rest belongs to no tensor", at));
}

}  // namespace

const Entry* Index::find(std::string_view name) const {
  for (const Entry& e : entries)
    if (e.name == name) return &e;
  return nullptr;
}

int bits_of(std::string_view dtype) {
  static const std::map<std::string_view, int> kBits = {
      {"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E4M3FNUZ", 8}, {"F4", 4},      {"F6_E2M3", 6},
      {"F6_E3M2", 6}, {"I16", 16},        {"U16", 16},        {"F16", 16},    {"BF16", 16},
      {"I32", 32},    {"U32", 32},        {"F32", 32},        {"F64", 64},    {"I64", 64},
      {"U64", 64},    {"C64", 64}};
  const auto it = kBits.find(dtype);
  return it == kBits.end() ? 0 : it->second;
}

Index parse(std::string_view bytes, const std::string& file) {
  if (bytes.size() < 8)
    refuse(file, "size", fmt::format("{} bytes", bytes.size()), "at least the 8 of a header length",
           "fetch the file again");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  if (length > kMaxHeader)
    refuse(file, "header length", fmt::format("{}", length), "at most 100000000",
           "check that this is a safetensors file");
  if (length > bytes.size() - 8)
    refuse(file, "header length", fmt::format("{}", length),
           fmt::format("at most {}, what follows it in the file", bytes.size() - 8),
           "fetch the file again");
  const std::string_view text = bytes.substr(8, length);
  if (text.empty() || text.front() != '{')
    refuse(file, "header",
           text.empty() ? "nothing" : "'" + printable(text.substr(0, 1)) + "' first", "'{'",
           "check that this is a safetensors file");
  // The JSON parser accepts a zero byte at the end and any white space, but the format pads with
  // spaces.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    refuse(file, "header", fmt::format("a zero byte at {}", zero), "JSON padded with spaces");
  if (text.find_last_not_of(' ') != text.find_last_not_of(" \t\r\n"))
    refuse(file, "header", "other white space at its end", "JSON padded with spaces");

  const uint64_t buffer = bytes.size() - 8 - length;
  Header header(file, buffer);
  nlohmann::json::sax_parse(text.begin(), text.end(), &header);
  Index index = header.take();
  check_cover(index.entries, buffer, file);
  for (Entry& e : index.entries) {
    e.begin += 8 + length;
    e.end += 8 + length;
  }
  return index;
}

File::File(const std::string& path) : file_(path), index_(parse(file_.bytes(), path)) {}

void write(const std::string& path, std::vector<Item> items,
           const std::map<std::string, std::string>& metadata) {
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    const int x = bits_of(a.dtype), y = bits_of(b.dtype);
    return x != y ? x > y : a.name < b.name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::vector<uint64_t> sizes;
  uint64_t at = 0;
  for (const Item& item : items) {
    uint64_t bytes = 0;
    const int bits = bits_of(item.dtype);
    WIDE_ASSERT(bits > 0 && size_of(item.shape, bits, &bytes), "dtype {}", item.dtype);
    WIDE_ASSERT(!header.contains(item.name), "tensor {} twice", item.name);
    header[item.name] = {
        {"dtype", item.dtype}, {"shape", item.shape}, {"data_offsets", {at, at + bytes}}};
    sizes.push_back(bytes);
    at += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();

  PartFile file(path);
  file.write(&length, sizeof length);
  file.write(text.data(), text.size());
  for (size_t i = 0; i < items.size(); ++i) file.write(items[i].data, sizes[i]);
  file.commit();
}

}  // namespace wide::safetensors
