#pragma once
#include <functional>

namespace wide {

/// Calls `work(thread, item)` for every item in [0, items), each once, on up to `threads` threads
/// of the OpenMP pool that ATen uses too; operators inside run single-threaded when there is more
/// than one. Items are handed out one at a time in order. Rethrows the first exception.
void run_parallel(int threads, int items, const std::function<void(int thread, int item)>& work);

/// Runs `work` on this thread with operators single-threaded, as inside `run_parallel`.
void run_serial(const std::function<void()>& work);

}  // namespace wide
