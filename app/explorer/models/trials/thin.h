#pragma once
#include <cstdint>
#include <vector>

namespace wide {

/// A table can have 64 columns, other ones beside these: so many values are shown at most.
inline constexpr size_t kMostColumns = 56;

/// At most `kMostColumns` of them, evenly chosen, the ends among them.
template <class T>
std::vector<T> thinned(const std::vector<T>& values) {
  if (values.size() <= kMostColumns) return values;
  std::vector<T> some;
  for (size_t i = 0; i < kMostColumns; ++i)
    some.push_back(values[i * (values.size() - 1) / (kMostColumns - 1)]);
  return some;
}

}  // namespace wide
