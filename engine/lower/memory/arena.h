#pragma once
#include <ATen/core/Tensor.h>

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

/// One block of memory for plans that never run at the same time; as large as the largest of their
/// arenas.
class ArenaMemory {
 public:
  /// Grows the block, which may move it: plans look up its address before each run.
  void reserve(int64_t bytes, c10::Device device);
  char* data() const { return block_.defined() ? static_cast<char*>(block_.data_ptr()) : nullptr; }
  int64_t bytes() const { return block_.defined() ? block_.numel() : 0; }

 private:
  at::Tensor block_;
};

}  // namespace wide
