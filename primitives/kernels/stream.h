#pragma once
#include <cstdint>

namespace wide::kernels {

/// Larger results leave a core's cache before they are read. Writing them past the caches halves
/// the memory traffic, as cached stores fetch a line before they write it.
constexpr int64_t kStreamBytes = int64_t{1} << 23;

/// Non-temporal copy of `count` floats. Other threads see them after `stream_fence`.
void stream_copy(float* to, const float* from, int64_t count);
void stream_fence();

}  // namespace wide::kernels
