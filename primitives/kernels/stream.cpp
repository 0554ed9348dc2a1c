#include "primitives/kernels/stream.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace wide::kernels {

namespace {

constexpr int64_t kLine = 16;  // floats

/// A line in one store: in four pieces it is slower than a plain copy.
__attribute__((target("avx512f"))) void stream_lines_512(float* to, const float* from,
                                                         int64_t count) {
  for (int64_t i = 0; i < count; i += kLine) _mm512_stream_ps(to + i, _mm512_loadu_ps(from + i));
}

}  // namespace

void stream_copy(float* to, const float* from, int64_t count) {
  static const bool whole_lines = __builtin_cpu_supports("avx512f") != 0;
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) / sizeof(float) % kLine);
  const int64_t head = past == 0 ? 0 : std::min(count, kLine - past);
  const int64_t lines = whole_lines ? (count - head) / kLine * kLine : 0;
  std::memcpy(to, from, static_cast<size_t>(head) * sizeof(float));
  if (lines > 0) stream_lines_512(to + head, from + head, lines);
  std::memcpy(to + head + lines, from + head + lines,
              static_cast<size_t>(count - head - lines) * sizeof(float));
}

void stream_fence() { _mm_sfence(); }

}  // namespace wide::kernels
