#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace wide {

/// What may stand behind KEY=: a number, a list, a range or a draw.
///   0.1                      for all
///   0.1,0.2,0.3              one each
///   log:1e-4..1e-1           evenly by their logarithm, ends included
///   lin:0..0.1, or 0..63     evenly, ends included
///   loguniform:1e-4..1e-1    drawn, as is uniform:0..1
///   log:1e-4..1e-1:8         a range or draw that says how many: a list of 8
struct Values {
  enum class Kind { one, list, linear, logarithmic, uniform, loguniform };
  Kind kind = Kind::one;
  std::vector<double> numbers;  // of a list; else the number, or both ends
  int64_t count = 1;            // values that the text says; 0: a range of as many as are asked for

  bool is_range() const { return count == 0; }
  /// `many` values, one for each configuration; draws depend on `seed` and `key` alone.
  std::vector<double> spread(int64_t many, const std::string& key, uint64_t seed) const;
};

/// Throws Error naming `key`; "true" and "false" are numbers too.
Values parse_values(const std::string& key, const std::string& text);

/// KEY and VALUE of a text with an equals sign; Error naming `option` for one without, which tells
/// to try `example`.
std::pair<std::string, std::string> key_value(const std::string& option, const std::string& text,
                                              const std::string& example = "lr=0.1");

/// What stands between commas, also where nothing does: "1,,2" are three.
std::vector<std::string> listed(const std::string& text);

/// A whole number, and nothing else: neither 1.5 nor 1x.
std::optional<int64_t> whole_number(const std::string& text);

}  // namespace wide
