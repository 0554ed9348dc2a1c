#include "data/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>

namespace wide {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// The length of the well-formed UTF-8 sequence at `i`, or 0. XML allows neither surrogates nor
/// U+FFFE and U+FFFF.
size_t sequence_at(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char first = byte(i);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || i + length > text.size()) return 0;
  uint32_t code = first & (0xFFu >> (length + 1));
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i + k) & 0x3Fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  const bool c1 = code < 0xA0;
  return code < kLeast[length] || code > 0x10FFFF || surrogate || c1 || (code & 0xFFFE) == 0xFFFE
             ? 0
             : length;
}

}  // namespace

std::string clean_text(std::string_view text, bool keep_lines) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n' || c == '\t' || c == '\r') {
      out += keep_lines && c == '\n' ? '\n' : ' ';
      ++i;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += kReplacement;
      ++i;
    } else if (const size_t length = sequence_at(text, i)) {
      out += text.substr(i, length);
      i += length;
    } else {
      out += kReplacement;
      ++i;
    }
  }
  return out;
}

std::string xml_escape(std::string_view text) {
  static const std::map<char, const char*> kEntities = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string out;
  for (const char c : clean_text(text, true))
    if (const auto entity = kEntities.find(c); entity != kEntities.end())
      out += entity->second;
    else
      out += c;
  return out;
}

std::string csv_cell(std::string_view text) {
  std::string clean = clean_text(text, true);
  double number = 0;
  const char* end = clean.data() + clean.size();
  const bool is_number =
      clean.starts_with('-') && std::from_chars(clean.data(), end, number).ptr == end;
  if (!is_number && !clean.empty() &&
      std::string_view("=+-@").find(clean.front()) != std::string_view::npos)
    clean.insert(clean.begin(), '\'');
  if (clean.find_first_of(",\"\n ") == std::string::npos) return clean;
  std::string out = "\"";
  for (const char c : clean) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string csv_number(double number) {
  return std::isnan(number) ? "nan" : fmt::format("{}", number);
}

std::string csv_number(float number) {
  return std::isnan(number) ? "nan" : fmt::format("{}", number);
}

std::string markdown_escape(std::string_view text) {
  std::string out;
  for (const char c : clean_text(text)) {
    // Characters that could begin a tag, a link, emphasis, code or another cell.
    if (std::string_view("\\`*_{}[]<>|#~&!").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./=,:+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(word);
  // Control characters act on a terminal even inside quotes, so they are written as \xNN.
  const bool controls =
      std::any_of(word.begin(), word.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  std::string out = controls ? "$'" : "'";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (controls && (byte < 0x20 || byte == 0x7f))
      out += fmt::format("\\x{:02x}", byte);
    else if (controls && (c == '\'' || c == '\\'))
      out += std::string("\\") + c;
    else
      out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

}  // namespace wide
