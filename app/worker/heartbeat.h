#pragma once
#include <sys/mman.h>

#include <atomic>
#include <cstdint>

#include "engine/machine/clock.h"

namespace wide {

/// A page of memory that a working process shares with the process that watches it.
struct Heartbeat {
  std::atomic<uint32_t> beats;      // changes as long as the work goes on
  std::atomic<uint32_t> contender;  // of a sweep's worker: whose call is being timed

  /// Says that the work goes on. Cheap enough for timed calls: of two threads' beats one may be
  /// lost.
  void beat() { beats.store(beats.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  /// Maps the page of a file, or with -1 a new one that a child shares after fork; nullptr on
  /// failure.
  static Heartbeat* map(int file) {
    void* page = mmap(nullptr, sizeof(Heartbeat), PROT_READ | PROT_WRITE,
                      MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
    return page == MAP_FAILED ? nullptr : static_cast<Heartbeat*>(page);
  }
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

/// Measures the time since the last heartbeat of a watched process.
class Silence {
 public:
  /// Starts again from 0: there was a heartbeat.
  void restart() { begun_s_ = now_s(); }
  /// Starts again from 0 if there was a heartbeat since the last call.
  void listen(const Heartbeat& heart) {
    const uint32_t now = heart.beats;
    if (now != beats_) restart();
    beats_ = now;
  }
  /// Does not count a time in which the process could not send heartbeats.
  void leave_out(double time_s) { begun_s_ += time_s; }
  double seconds() const { return now_s() - begun_s_; }

 private:
  double begun_s_ = now_s();
  uint32_t beats_ = 0;
};

}  // namespace wide
