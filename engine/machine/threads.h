#pragma once
#include <functional>

namespace wide {

/// Runs the executor's ranges of models, as items: calls `work(thread, item)` for each in [0,
/// items), once, on up to `threads` threads of ATen's OpenMP pool; with several, operators inside
/// run single-threaded. Each thread begins
/// with a contiguous share of the items, then helps others. Rethrows the first exception.
void run_parallel(int threads, int items, const std::function<void(int thread, int item)>& work);

/// Runs `work` on this thread alone: operators are single-threaded, as inside `run_parallel`, and
/// no other thread is started or waits.
void run_serial(const std::function<void()>& work);

/// To be called by each thread of an OpenMP region before its first operator: operators run on that
/// thread alone until the region ends. oneDNN's backward convolution would otherwise ask for as
/// many threads as outside the region, get one, and wait for the others for ever.
void use_one_thread();

}  // namespace wide
