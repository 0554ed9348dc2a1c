#include "data/bytes/npy.h"

#include <array>
#include <charconv>
#include <cstring>

#include "data/bytes/refuse.h"
#include "data/bytes/safetensors.h"

namespace wide::npy {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kLongestHeader = 64 * 1024, kAlignment = 64;

struct Kind {
  std::string_view numpy, safetensors;
};
constexpr std::array kKinds{Kind{"f4", "F32"}, Kind{"f8", "F64"}, Kind{"f2", "F16"},
                            Kind{"u1", "U8"},  Kind{"i1", "I8"},  Kind{"i2", "I16"},
                            Kind{"i4", "I32"}, Kind{"i8", "I64"}, Kind{"b1", "BOOL"},
                            Kind{"u2", "U16"}, Kind{"u4", "U32"}, Kind{"u8", "U64"}};

/// Parses the header, a Python dict with three known keys.
class Header {
 public:
  Header(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Array read() {
    Array array;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        array.dtype = dtype(quoted());
        descr = true;
      } else if (key == "fortran_order") {
        array.column_major = boolean();
        order = true;
      } else if (key == "shape") {
        array.shape = tuple();
        shape = true;
      } else {
        broken();
      }
      take(',');
    }
    if (!descr || !order || !shape) broken();
    return array;
  }

 private:
  [[noreturn]] void broken() const {
    refuse(file_, "header", printable(text_, 60), "descr, fortran_order and shape of one array",
           "save it with numpy.save");
  }
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) broken();
  }
  std::string quoted() {
    expect('\'');
    const size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) broken();
    std::string word(text_.substr(at_, end - at_));
    at_ = end + 1;
    return word;
  }
  bool boolean() {
    blanks();
    for (const auto& [word, value] : {std::pair("True", true), {"False", false}})
      if (text_.substr(at_).rfind(word, 0) == 0) {
        at_ += std::strlen(word);
        return value;
      }
    broken();
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!take(')')) {
      blanks();
      int64_t size = -1;
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) broken();
      at_ = static_cast<size_t>(end - text_.data());
      sizes.push_back(size);
      take(',');
    }
    return sizes;
  }
  std::string dtype(const std::string& descr) const {
    if (descr.size() > 1 && (descr[0] == '<' || descr[0] == '|'))
      for (const Kind& kind : kKinds)
        if (kind.numpy == std::string_view(descr).substr(1)) return std::string(kind.safetensors);
    refuse(file_, "dtype", printable(descr, 20), "little-endian numbers",
           "save numbers, as with array.astype('<f4')");
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
};

}  // namespace

bool probe(std::string_view bytes) { return bytes.rfind(kMagic, 0) == 0; }

Array parse(std::string_view bytes, const std::string& file) {
  if (!probe(bytes) || bytes.size() < 12)
    refuse(file, "array", "other bytes", "those of numpy.save", "save it with numpy.save");
  const auto number = [&](size_t place) { return static_cast<unsigned char>(bytes[place]); };
  const int version = number(6);
  const size_t before = version == 1 ? 10 : 12;
  size_t length = number(8) + (number(9) << 8);
  if (version > 1) length += (number(10) << 16) + (static_cast<size_t>(number(11)) << 24);
  if (version < 1 || version > 3 || length > kLongestHeader || before + length > bytes.size())
    refuse(file, "header", fmt::format("version {} with {} bytes", version, length),
           "version 1 to 3, in the file", "save it with numpy.save");
  Array array = Header(bytes.substr(before, length), file).read();
  array.begin = before + length;
  uint64_t size = static_cast<uint64_t>(safetensors::bits_of(array.dtype)) / 8;
  for (const int64_t s : array.shape)
    if (__builtin_mul_overflow(size, static_cast<uint64_t>(s), &size))
      refuse(file, "sizes", "2^64 bytes or more", "an array");
  array.end = array.begin + size;
  if (size > bytes.size() || array.end != bytes.size())
    refuse(file, "values", fmt::format("{} bytes", bytes.size() - array.begin),
           fmt::format("the {} that its header says", size), "fetch the file again");
  return array;
}

std::string header(const std::string& dtype, const std::vector<int64_t>& shape) {
  std::string_view numpy;
  for (const Kind& kind : kKinds)
    if (kind.safetensors == dtype) numpy = kind.numpy;
  WIDE_ASSERT(!numpy.empty(), "dtype {}", dtype);
  std::string sizes;
  for (const int64_t s : shape) sizes += fmt::format("{}, ", s);
  if (shape.size() > 1) sizes.resize(sizes.size() - 2);
  const bool byte = numpy[1] == '1';
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 byte ? '|' : '<', numpy, sizes);
  const size_t before = 10;
  text.append(kAlignment - 1 - (before + text.size()) % kAlignment, ' ');
  text += '\n';
  std::string out(kMagic);
  out += {1, 0, static_cast<char>(text.size() & 255), static_cast<char>(text.size() >> 8)};
  return out + text;
}

}  // namespace wide::npy
