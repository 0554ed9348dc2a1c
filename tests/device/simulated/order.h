#pragma once
#include <array>
#include <unordered_map>

#include "tests/device/simulated/memory.h"

namespace wide::simulated {

inline constexpr size_t kStreams = 33;  // the default one and a pool

/// By stream: how many of its calls are over. What knows a clock comes after those calls.
using Clock = std::array<uint64_t, kStreams>;
void join(Clock& clock, const Clock& other);

/// Bytes that a call reads or writes.
struct Access {
  uintptr_t begin = 0, end = 0;
  bool write = false;
  std::string what;  // "aten::add argument 1"
};

/// Which calls come before which, by their streams, by events and by what the host has waited for;
/// and whether two that touch the same bytes have an order at all.
class Order {
 public:
  /// A call on a stream. Returns "" or the two that have no order.
  std::string call(StreamId stream, const std::vector<Access>& accesses);
  const Clock& at(StreamId stream) const { return clocks_[static_cast<size_t>(stream)]; }
  /// What `stream` is given next comes after `clock`.
  void wait(StreamId stream, const Clock& clock) {
    join(clocks_[static_cast<size_t>(stream)], clock);
  }
  /// The host has waited for what `clock` knows.
  void host_waits(const Clock& clock) { join(host_, clock); }

 private:
  struct Past {
    Access access;
    StreamId stream = 0;
    uint64_t count = 0;
  };
  std::array<Clock, kStreams> clocks_{};
  Clock host_{};
  std::unordered_map<uintptr_t, std::vector<Past>> past_;  // by block
};

}  // namespace wide::simulated
