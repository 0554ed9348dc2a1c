#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wide {

/// The value of KEY=VALUE: a number, a list, a range or a draw.
///   0.1                      the same for all
///   0.1,0.2,0.3              one for each
///   log:1e-4..1e-1           evenly spaced logarithms, ends included
///   lin:0..0.1, or 0..63     evenly spaced, ends included
///   loguniform:1e-4..1e-1    drawn, as is uniform:0..1
///   log:1e-4..1e-1:8         a range or draw that says how many: a list of 8
struct Values {
  enum class Kind { one, list, linear, logarithmic, uniform, loguniform };
  Kind kind = Kind::one;
  std::vector<double> numbers;  // of a list; else the number, or both ends
  int64_t count = 1;            // number of values; 0: a range of as many as there are models

  bool is_range() const { return count == 0; }
  /// `many` values, one for each configuration; draws depend on `seed` and `key` alone.
  std::vector<double> spread(int64_t many, const std::string& key, uint64_t seed) const;
};

/// Throws Error naming `key`; "true" and "false" are numbers too.
Values parse_values(const std::string& key, const std::string& text);

/// Splits KEY=VALUE. Throws Error that names `option` and suggests `example` if there is no equals
/// sign.
std::pair<std::string, std::string> key_value(const std::string& option, const std::string& text,
                                              const std::string& example = "lr=0.1");

/// Splits at commas and keeps empty parts: "1,,2" has three.
std::vector<std::string> listed(const std::string& text);

}  // namespace wide
