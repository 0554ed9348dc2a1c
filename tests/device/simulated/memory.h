#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace wide::simulated {

using StreamId = int64_t;

/// An allocation. A block keeps its address and size for good; it is alive while a tensor has it.
struct Block {
  int64_t id = 0;  // another one at each allocation
  uintptr_t begin = 0;
  size_t bytes = 0;
  StreamId stream = 0;         // the current one when it was asked for
  const void* pool = nullptr;  // the capture that asked for it, which keeps it
  bool alive = false;
};

/// The device's memory: a file in memory that is mapped twice. Tensors carry addresses of the first
/// mapping, which nobody may touch; kernels work through the second one. What is given away is
/// taken again by the same stream alone, at once, as a caching allocator does.
class Memory {
 public:
  static Memory& get();

  /// Throws c10::OutOfMemoryError beyond the limit.
  const Block& allocate(size_t bytes, StreamId stream, const void* pool);
  void free(uintptr_t begin);
  /// A capture has gone: what it kept can be had by all.
  void release_pool(const void* pool);
  /// Gives the pages of what is not alive back to the system. Nothing may be running.
  void release();

  /// The block that an address lies in, alive or not; null where none was ever made.
  const Block* block_of(uintptr_t address) const;
  bool owns(uintptr_t address) const { return address - seen_ < kBytes; }
  /// The same byte in the mapping that kernels use.
  char* shadow(const void* seen) const {
    return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(seen) + (shadow_ - seen_));
  }

  void set_limit(int64_t bytes) { limit_ = bytes; }
  int64_t limit() const { return limit_; }
  int64_t allocated() const { return allocated_; }
  int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = allocated_; }

 private:
  Memory();
  static constexpr size_t kBytes = size_t{1}
                                   << 36;  // of addresses; pages come with their first use

  int file_ = -1;
  uintptr_t seen_ = 0, shadow_ = 0, next_ = 0;
  std::map<uintptr_t, Block> blocks_;
  struct Place {
    StreamId stream;
    const void* pool;
    size_t bytes;
    auto operator<=>(const Place&) const = default;
  };
  std::map<Place, std::vector<uintptr_t>> free_;
  int64_t next_id_ = 1, limit_ = int64_t{4} << 30, allocated_ = 0, peak_ = 0;
};

}  // namespace wide::simulated
