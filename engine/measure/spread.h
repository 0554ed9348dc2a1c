#pragma once
#include <cstdint>
#include <functional>

namespace wide {

/// Splits [0, count) into contiguous shares, one for each of up to `threads` threads of the OpenMP
/// pool, so that a model stays on its core, and calls `call(begin, end)` on each. LibTorch's
/// thread-local state is the caller's; operators run on one thread each. Rethrows the first
/// exception after all have ended.
void call_spread(int64_t count, int threads, const std::function<void(int64_t, int64_t)>& call);

}  // namespace wide
