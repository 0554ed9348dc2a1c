#pragma once
#include <cstdint>
#include <vector>

namespace wide {

/// A table can have 64 columns, other ones beside these: so many Ns are shown at most.
inline constexpr size_t kMostNs = 56;

/// At most `kMostNs` of them, evenly chosen, the ends among them.
inline std::vector<int64_t> thinned(const std::vector<int64_t>& ns) {
  if (ns.size() <= kMostNs) return ns;
  std::vector<int64_t> some;
  for (size_t i = 0; i < kMostNs; ++i) some.push_back(ns[i * (ns.size() - 1) / (kMostNs - 1)]);
  return some;
}

}  // namespace wide
