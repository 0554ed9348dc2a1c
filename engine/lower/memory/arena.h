#pragma once
#include <cstdint>
#include <vector>

namespace wide {

/// A buffer alive from step `begin` to step `end`, both included.
struct Lifetime {
  int64_t bytes = 0;
  size_t begin = 0, end = 0;
};

struct ArenaLayout {
  std::vector<int64_t> offsets;  // 64-byte aligned, by lifetime
  int64_t bytes = 0;
};

/// Places buffers so that no two alive at once overlap: largest first, lowest gap that fits.
ArenaLayout place(const std::vector<Lifetime>& lifetimes);

}  // namespace wide
