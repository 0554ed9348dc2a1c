#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "engine/measure/measure.h"

// Every result is described once, by a function `describe(Fields&, Struct&)` that visits its
// fields in the order of the JSON reports. Every reader and writer of results implements `Fields`.
namespace wide {

/// How a field without a value is written.
enum class Presence {
  always,   // it always has one
  later,    // it always has one, but reports of earlier versions lack the field
  null,     // as null
  omitted,  // not at all
};

/// What is particular to a field; the defaults fit most of them.
struct FieldRule {
  Presence presence = Presence::always;
  /// Its column in the store's table, "" for one of the field's own name. A field without a column
  /// lies in the column `more`, as JSON.
  const char* column = nullptr;
  double none = 0;         // numbers <= this mean "no value"
  bool shown = true;       // false: written as if it had no value
  bool own_table = false;  // of an object: its columns are those of another table
  bool in_csv = true;
  // What its JSON schema adds to its type.
  std::optional<int> minimum = {}, above = {};
  bool finite = false;               // numbers that are never null
  const char* words = nullptr;       // the texts allowed, separated by spaces
  const char* pattern = nullptr;     // a regular expression for a text
  const char* definition = nullptr;  // where the schema of the object, or of a list's items, is
  const char* description = nullptr;
};

/// Any JSON value, kept as text.
struct JsonText {
  std::string text;
  bool operator==(const JsonText&) const = default;
};

template <class T>
using ByName = std::map<std::string, T>;

/// What a field without fields of its own may be. An interval stands for its two ends, a list of
/// numbers whose columns are COLUMN_low and COLUMN_high.
using FieldValue =
    std::variant<double*, int64_t*, bool*, std::string*, std::vector<double>*,
                 std::vector<std::string>*, Interval*, ByName<double>*, ByName<int64_t>*,
                 ByName<std::string>*, ByName<std::vector<double>>*,
                 ByName<std::vector<std::string>>*, ByName<JsonText>*>;

class Fields {
 public:
  virtual ~Fields() = default;

  /// Visits a field: a number, truth value, text, a list or map of them, a struct that has
  /// `describe`, an optional one, or a list of such structs.
  template <class T>
  void add(const char* name, T& value, const FieldRule& rule = FieldRule()) {
    if constexpr (std::is_integral_v<T> && !std::is_constructible_v<FieldValue, T*>) {
      auto number = static_cast<int64_t>(value);
      visit(name, &number, rule);
      if (fills()) value = static_cast<T>(number);
    } else if constexpr (std::is_constructible_v<FieldValue, T*>) {
      visit(name, &value, rule);
    } else if (begin(name, rule.shown, rule)) {
      describe(*this, value);
      end();
    }
  }
  template <class T>
  void add(const char* name, std::optional<T>& value, const FieldRule& rule = FieldRule()) {
    if (!begin(name, value && rule.shown, rule)) return;
    if (!value) value.emplace();
    describe(*this, *value);
    end();
  }
  /// A count that may be missing, which 0 means.
  void add(const char* name, std::optional<int64_t>& value, const FieldRule& rule) {
    int64_t number = value.value_or(0);
    visit(name, &number, rule);
    if (fills()) value = number == 0 ? std::nullopt : std::optional(number);
  }
  template <class T>
  void add(const char* name, std::vector<T>& list, const FieldRule& rule = FieldRule()) {
    if constexpr (std::is_constructible_v<FieldValue, std::vector<T>*>) {
      visit(name, &list, rule);
    } else {
      const std::optional<size_t> size = begin_list(name, list.size(), rule);
      if (fills()) list.resize(size.value_or(0));
      if (!size) return;
      for (size_t i = 0; i < *size; ++i) {
        begin_item();
        describe(*this, list[i]);
        end();
      }
      end_list();
    }
  }
  /// Structs by name, as the fields of one object.
  template <class T>
  void add(const char* name, ByName<T>& map, const FieldRule& rule = FieldRule()) {
    if constexpr (std::is_constructible_v<FieldValue, ByName<T>*>) {
      visit(name, &map, rule);
    } else {
      std::vector<std::string> keys;
      for (const auto& [key, value] : map) keys.push_back(key);
      const auto entries = begin_map(name, keys, rule);
      if (!entries) return;
      for (const std::string& key : *entries) {
        begin(key.c_str(), true, FieldRule());
        describe(*this, map[key]);
        end();
      }
      end_map();
    }
  }
  /// A value of an enumeration, as its word.
  template <class Enum, class ToWord, class FromWord>
  void add_word(const char* name, Enum& value, ToWord word_of, FromWord value_of,
                const FieldRule& rule) {
    std::string word = word_of(value);
    visit(name, &word, rule);
    if (fills() && !word.empty()) value = value_of(word);
  }

  virtual void visit(const char* name, FieldValue value, const FieldRule& rule) = 0;
  /// All other fields of the object that is visited: `value` is a map. Call it after `add`.
  virtual void rest(FieldValue value, const FieldRule& rule) = 0;

  /// Begins an object, which has a value if `there`. Returns false if its fields are not to be
  /// visited; then `end` is not called.
  virtual bool begin(const char* name, bool there, const FieldRule& rule) = 0;
  virtual void end() = 0;
  /// Begins a list of objects, and returns how many are to be visited: `begin_item`, then `end`.
  /// nullopt: the list is left out, and `end_list` is not called.
  virtual std::optional<size_t> begin_list(const char* name, size_t size,
                                           const FieldRule& rule) = 0;
  virtual void begin_item() = 0;
  virtual void end_list() { end(); }
  /// Begins an object of structs by name; returns the names to visit: `begin`, then `end`. nullopt:
  /// the object is left out, and `end_map` is not called.
  virtual std::optional<std::vector<std::string>> begin_map(const char* name,
                                                            const std::vector<std::string>& keys,
                                                            const FieldRule& rule) = 0;
  virtual void end_map() { end(); }
  /// Whether `visit` may write into the structs: true for readers, and for walks over all fields
  /// that fill empty structs on the way (the columns of tables).
  virtual bool fills() const = 0;
};

}  // namespace wide
