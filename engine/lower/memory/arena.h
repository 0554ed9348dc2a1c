#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/machine/large_pages.h"

namespace wide {

/// A buffer alive from step `begin` to step `end`, both included.
struct Lifetime {
  int64_t bytes = 0;
  size_t begin = 0, end = 0;
};

/// Memory of something else that may be used for a while: until step `until`, exclusive.
struct Lent {
  int64_t bytes = 0;
  size_t until = 0;
};

/// Where a buffer lies.
struct BufferPlace {
  int64_t lent = -1;   // index of the memory that is lent; -1: the arena's own block
  int64_t offset = 0;  // 64-byte aligned
};

struct ArenaLayout {
  std::vector<BufferPlace> places;  // by lifetime
  int64_t bytes = 0;                // of the own block
};

/// Places buffers so that no two alive at once overlap: largest first, lowest gap that fits, in
/// lent memory where there is one. The first ones lie in `fixed` already.
ArenaLayout place(const std::vector<Lifetime>& lifetimes, const std::vector<Lent>& lent = {},
                  const std::vector<BufferPlace>& fixed = {});

/// One block of memory for plans that never run at the same time; as large as the largest of their
/// arenas. It exists while an ArenaLease does; on other devices than the CPU, and if it is small,
/// always.
class ArenaMemory {
 public:
  /// From `reused_from` bytes on, memory waits for the next lease of an arena (empty_to_reuse).
  explicit ArenaMemory(int64_t reused_from = kLargePage_bytes) : reused_from_(reused_from) {}
  ~ArenaMemory() { free_unused_memory(); }  // also what its leases have left
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;

  void reserve(int64_t bytes, c10::Device device);
  /// Its address, which may be another in the next lease: plans look it up before each run.
  char* data() const { return block_.defined() ? static_cast<char*>(block_.data_ptr()) : nullptr; }
  int64_t bytes() const { return bytes_; }

 private:
  friend class ArenaLease;
  const int64_t reused_from_;
  int64_t bytes_ = 0;
  at::Tensor block_;
};

/// One for each thread.
using Arenas = std::vector<std::shared_ptr<ArenaMemory>>;

/// While it exists, the arenas have memory.
class ArenaLease {
 public:
  explicit ArenaLease(const Arenas& arenas);
  ~ArenaLease();
  ArenaLease(const ArenaLease&) = delete;
  ArenaLease& operator=(const ArenaLease&) = delete;

 private:
  Arenas taken_;
};

}  // namespace wide
