#pragma once
#include <cstdint>
#include <string>

namespace wide {

/// `--part K/N`: one machine's share of a sweep's cases or of a run's models.
struct Part {
  int64_t number = 1, count = 1;  // K, counted from 1, and N

  /// "2/3".
  std::string text() const;
  /// This part's models are [first(all), last(all)) if `all` models are cut into N equal slices.
  /// Sweeps share their cases by estimated time instead (app/sweep/part.h).
  int64_t first(int64_t all) const { return all * (number - 1) / count; }
  int64_t last(int64_t all) const { return all * number / count; }
};

/// Throws Error for anything but K/N with K from 1 to N.
Part parse_part(const std::string& text);

}  // namespace wide
