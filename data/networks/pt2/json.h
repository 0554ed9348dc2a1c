#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace wide::pt2 {

/// A key of an object, and what its value goes into: a text, a number, a truth value, or a function
/// that reads it.
template <class To>
struct Part {
  const char* key;
  To to;
};
template <class To>
Part<To> part(const char* key, To to) {
  return {key, to};
}

/// Reads JSON in order, value by value, without building a document, so that memory and depth are
/// bounded by what the caller asks for. Knows no LibTorch.
/// Throws Error for invalid JSON, a value of another type than asked for, too deep nesting and
/// duplicate keys.
class Json {
 public:
  enum class Kind { null, boolean, number, string, array, object };

  /// `file` and `what` are for messages: "net.pt2", "models/model.json".
  Json(std::string_view text, std::string file, std::string what);

  Kind peek();
  void null();
  bool boolean();
  int64_t integer();
  double real();  // also of the strings "Infinity", "-Infinity" and "NaN", as PyTorch writes them
  std::string string();
  /// Skips the next value, whatever it is.
  void skip();
  /// Throws Error if anything but white space follows.
  void end();

  /// `item` reads one element.
  template <class Item>
  void array(Item item) {
    open('[', "an array");
    if (!close(']')) do {
        item();
      } while (more(']'));
    --depth_;
  }

  /// `value` gets a key and reads, or skips, what belongs to it.
  template <class ValueOf>
  void object(ValueOf value) {
    open('{', "an object");
    std::set<std::string> seen;
    if (!close('}')) do {
        const std::string key = string();
        if (!seen.insert(key).second) twice(key);
        expect(':');
        value(key);
      } while (more('}'));
    --depth_;
  }

  /// Reads an object of which these keys are of use, and skips the others.
  template <class... Parts>
  void parts(const Parts&... known) {
    object([&](const std::string& key) {
      if (!((key == known.key && (read(known.to), true)) || ...)) skip();
    });
  }

  /// A value where null may stand instead; false for null.
  template <class ValueOf>
  bool optional(ValueOf value) {
    if (peek() == Kind::null) {
      null();
      return false;
    }
    value();
    return true;
  }

  [[noreturn]] void refuse(const std::string& got, const std::string& expected) const;

 private:
  void read(std::string* to) { *to = string(); }
  void read(int64_t* to) { *to = integer(); }
  void read(bool* to) { *to = boolean(); }
  template <class Reads>
  void read(const Reads& reads) {
    reads();
  }
  char next();  // the next character that is no white space
  void expect(char c);
  void open(char bracket, const char* what);
  bool close(char bracket);  // if it is next, reads it and returns true
  bool more(char bracket);   // true after a comma, false after the bracket
  void literal(std::string_view word);
  std::string_view number();
  uint32_t hex4();
  void escaped(std::string& out);
  void skip_string();
  [[noreturn]] void wrong(const char* expected);
  [[noreturn]] void twice(const std::string& key) const;

  std::string_view text_;
  std::string file_, what_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace wide::pt2
