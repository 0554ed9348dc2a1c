#include "data/networks/pt2/json.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "data/bytes/refuse.h"

namespace wide::pt2 {
namespace {

/// Limit of nesting: each sub-graph in another takes about ten levels.
constexpr int kDeepestJson = 400;

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  const int following = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  put(kFirst[following] | code >> (6 * following));
  for (int i = following; i-- > 0;) put(0x80 | (code >> (6 * i) & 0x3f));
}

}  // namespace

Json::Json(std::string_view text, std::string file, std::string what)
    : text_(text), file_(std::move(file)), what_(std::move(what)) {}

void Json::refuse(const std::string& got, const std::string& expected) const {
  wide::refuse(file_, what_, fmt::format("{} at byte {}", got, at_), expected,
               "export it again with torch.export.save");
}

void Json::twice(const std::string& key) const {
  refuse(fmt::format("key {} twice", printable(key, 60)), "every key once");
}

void Json::wrong(const char* expected) {
  if (at_ >= text_.size()) refuse("the end", expected);
  refuse("'" + printable(text_.substr(at_, 1)) + "'", expected);
}

char Json::next() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
    ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

void Json::expect(char c) {
  if (next() != c) wrong(c == ':' ? "a colon" : "a comma or the end of the list");
  ++at_;
}

void Json::open(char bracket, const char* what) {
  if (next() != bracket) wrong(what);
  ++at_;
  if (++depth_ > kDeepestJson) refuse("more levels", fmt::format("at most {}", kDeepestJson));
}

bool Json::close(char bracket) {
  if (next() != bracket) return false;
  ++at_;
  return true;
}

bool Json::more(char bracket) {
  if (close(bracket)) return false;
  expect(',');
  return true;
}

void Json::literal(std::string_view word) {
  if (text_.substr(at_, word.size()) != word) wrong("a JSON value");
  at_ += word.size();
}

Json::Kind Json::peek() {
  switch (next()) {
    case 'n':
      return Kind::null;
    case 't':
    case 'f':
      return Kind::boolean;
    case '"':
      return Kind::string;
    case '[':
      return Kind::array;
    case '{':
      return Kind::object;
    default:
      return Kind::number;
  }
}

void Json::null() {
  if (peek() != Kind::null) wrong("null");
  literal("null");
}

bool Json::boolean() {
  if (peek() != Kind::boolean) wrong("true or false");
  const bool value = text_[at_] == 't';
  literal(value ? "true" : "false");
  return value;
}

std::string_view Json::number() {
  next();
  size_t end = at_;
  while (end < text_.size() && (std::string_view("+-.eE").find(text_[end]) != std::string::npos ||
                                (text_[end] >= '0' && text_[end] <= '9')))
    ++end;
  if (end == at_) wrong("a number");
  return text_.substr(at_, end - at_);
}

int64_t Json::integer() {
  const std::string_view digits = number();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
  if (error != std::errc() || end != digits.end())
    refuse(printable(digits, 40), "an integer of 64 bits");
  at_ += digits.size();
  return value;
}

double Json::real() {
  if (peek() == Kind::string) {
    const std::string word = string();
    const double infinity = std::numeric_limits<double>::infinity();
    if (word == "Infinity") return infinity;
    if (word == "-Infinity") return -infinity;
    if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
    refuse('"' + printable(word, 40) + '"', "a number");
  }
  const std::string_view digits = number();
  double value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
  if (error != std::errc() || end != digits.end()) refuse(printable(digits, 40), "a number");
  at_ += digits.size();
  return value;
}

uint32_t Json::hex4() {
  uint32_t code = 0;
  const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), code, 16);
  if (digits.size() != 4 || error != std::errc() || end != digits.end())
    refuse("a broken \\u", "four hexadecimal digits");
  at_ += 4;
  return code;
}

void Json::escaped(std::string& out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  const char c = at_ < text_.size() ? text_[at_++] : '\0';
  if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
    out += kMeanings[known];
    return;
  }
  if (c != 'u') refuse("a broken escape", "one of JSON's");
  uint32_t code = hex4();
  if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    const uint32_t low = hex4();
    if (low < 0xdc00 || low > 0xdfff) refuse("half a character", "both halves");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xd800 && code < 0xe000) {
    refuse("half a character", "both halves");
  }
  append_utf8(out, code);
}

std::string Json::string() {
  if (next() != '"') wrong("a string");
  ++at_;
  std::string out;
  for (;;) {
    size_t end = at_;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\\' &&
           static_cast<unsigned char>(text_[end]) >= 0x20)
      ++end;
    out += text_.substr(at_, end - at_);
    at_ = end;
    if (at_ >= text_.size()) refuse("the end", "the end of a string");
    const char c = text_[at_];
    if (c != '"' && c != '\\') refuse("a control character in a string", "it escaped");
    ++at_;
    if (c == '"') return out;
    escaped(out);
  }
}

void Json::skip_string() {
  ++at_;
  while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
  if (at_ >= text_.size()) refuse("the end", "the end of a string");
  ++at_;
}

void Json::skip() {
  switch (peek()) {
    case Kind::null:
      return null();
    case Kind::boolean:
      boolean();
      return;
    case Kind::number:
      at_ += number().size();
      return;
    case Kind::string:
      return skip_string();
    case Kind::array:
      return array([this] { skip(); });
    case Kind::object:
      open('{', "an object");
      if (!close('}')) do {
          if (next() != '"') wrong("a string");
          skip_string();
          expect(':');
          skip();
        } while (more('}'));
      --depth_;
  }
}

void Json::end() {
  next();
  if (at_ != text_.size()) refuse("more", "the end");
}

}  // namespace wide::pt2
