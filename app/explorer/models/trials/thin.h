#pragma once
#include <cstdint>
#include <vector>

namespace wide {

/// The most values shown as columns: ImGui allows 64 columns, and tables have further ones.
inline constexpr size_t kMostColumns = 56;

/// At most `kMostColumns` of `values`, evenly chosen, first and last included.
template <class T>
std::vector<T> thinned(const std::vector<T>& values) {
  if (values.size() <= kMostColumns) return values;
  std::vector<T> some;
  for (size_t i = 0; i < kMostColumns; ++i)
    some.push_back(values[i * (values.size() - 1) / (kMostColumns - 1)]);
  return some;
}

}  // namespace wide
