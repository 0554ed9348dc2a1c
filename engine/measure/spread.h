#pragma once
#include <cstdint>
#include <functional>

namespace wide {

/// Calls `call(i)` for every i in [0, count) on up to `threads` threads of the OpenMP pool, each
/// with a contiguous share, so that a model stays on its core. LibTorch's thread-local state is the
/// caller's; operators run on one thread each. Rethrows the first exception after all have ended.
void call_spread(int64_t count, int threads, const std::function<void(int64_t)>& call);

}  // namespace wide
