#pragma once
#include <chrono>

namespace wide {

/// The machine's steady clock, in nanoseconds since an arbitrary moment.
inline double now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::nano>(now).count();
}
inline double now_s() { return now_ns() * 1e-9; }

}  // namespace wide
