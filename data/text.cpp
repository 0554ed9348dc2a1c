#include "data/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace wide {

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < std::min(limit, text.size()); ++i) {
    // C1 control characters have two bytes in UTF-8; terminals act on them too.
    const bool second =
        byte(i) == 0xc2 && i + 1 < text.size() && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0;
    if (byte(i) < 0x20 || byte(i) == 0x7f)
      out += fmt::format("\\x{:02x}", byte(i));
    else if (second)
      out += fmt::format("\\x{:02x}", byte(++i));
    else
      out += text[i];
  }
  // Cuts before a UTF-8 sequence, not inside it.
  if (text.size() > limit) {
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0x80)) out.pop_back();
    out += "...";
  }
  return out;
}

std::string listing(const std::vector<std::string>& names, size_t shown) {
  std::string out;
  const size_t count = std::min(shown, names.size());
  for (size_t i = 0; i < count; ++i) out += (i ? ", " : "") + printable(names[i]);
  if (names.size() > count) out += fmt::format(" and {} more", names.size() - count);
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t at = std::min(text.find(separator), text.size());
    std::string_view part = text.substr(0, at);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
    text.remove_prefix(std::min(at + 1, text.size()));
  }
  return parts;
}

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

bool natural_less(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto number = [&](const std::string& text, size_t* at) {
      while (*at < text.size() && text[*at] == '0') ++*at;
      const size_t begin = *at;
      while (*at < text.size() && digit(text[*at])) ++*at;
      return text.substr(begin, *at - begin);
    };
    const std::string x = number(a, &i), y = number(b, &j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;
}

std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) bytes /= 1000, ++unit;
  return fmt::format("{:.{}f} {}", bytes, bytes < 9.95 && unit ? 1 : 0, kUnits[unit]);
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string time_text(double nanoseconds) {
  static constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  size_t unit = 0;
  while (nanoseconds >= 999.5 && unit + 1 < std::size(kUnits)) nanoseconds /= 1000, ++unit;
  const int digits = nanoseconds < 9.995 ? 2 : nanoseconds < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", nanoseconds, digits, kUnits[unit]);
}

void write_stderr(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace wide
