#pragma once
#include <cstdint>
#include <string>

namespace wide {

/// `--part K/N`: which share of a plan's cases or models one of several machines has.
struct Part {
  int64_t number = 1, count = 1;  // the former from 1

  /// "2/3".
  std::string text() const;
  /// Things in a row are shared out evenly: those of this part begin at `first(all)` and end before
  /// `last(all)`.
  int64_t first(int64_t all) const { return all * (number - 1) / count; }
  int64_t last(int64_t all) const { return all * number / count; }
};

/// Throws Error for anything but K/N with K from 1 to N.
Part parse_part(const std::string& text);

}  // namespace wide
