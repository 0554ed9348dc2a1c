#pragma once
#include <cstdint>

namespace wide::kernels {

/// Results beyond this do not stay in a core's cache until they are read: written past the caches
/// they cost one trip to memory instead of two (a line is otherwise fetched before it is written).
constexpr int64_t kStreamBytes = int64_t{1} << 23;

/// Copies `count` floats past the caches. Other threads see them after `stream_fence`.
void stream_copy(float* to, const float* from, int64_t count);
void stream_fence();

}  // namespace wide::kernels
