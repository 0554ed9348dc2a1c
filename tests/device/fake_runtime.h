#pragma once
#include <map>
#include <mutex>

#include "engine/device.h"

namespace wide {

/// A device's runtime on the CPU, for tests: it records what it is asked for, and holds the engine
/// to the rules of a GPU. What is captured is replayed by address, as a GPU does, so that memory
/// which somebody gave away in between is found. While one lives it is the runtime of the CPU.
class FakeRuntime {
 public:
  FakeRuntime();
  ~FakeRuntime();
  FakeRuntime(const FakeRuntime&) = delete;
  FakeRuntime& operator=(const FakeRuntime&) = delete;

  /// "graph", "begin", "end", "abandon", "replay", "synchronize", "start", "stop", "ns", "streams",
  /// "release", in their order.
  std::vector<std::string> calls() const;
  int64_t count(const std::string& call) const;
  /// The rules that were broken, each by a line that begins with its name.
  std::vector<std::string> violations() const;
  bool capturing() const;
  /// Allocations made during captures, in all.
  int64_t allocations_in_captures() const;

  /// From now on the device fails, as after an assertion in a kernel.
  void break_with(const std::string& error);
  void set_free_memory(int64_t bytes);
};

}  // namespace wide
