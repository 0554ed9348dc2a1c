#include "primitives/kernels/stream.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/stream.cpp"
#include "primitives/kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace wide::kernels::HWY_NAMESPACE {

void stream_copy(float* to, const float* from, int64_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr int64_t kLine = 16;  // floats
  const hn::ScalableTag<float> d;
  // Only if one store writes a whole line: in pieces it is slower than a plain copy.
  const bool whole_lines = static_cast<int64_t>(hn::Lanes(d)) == kLine;
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) / sizeof(float) % kLine);
  const int64_t head = past == 0 ? 0 : std::min(count, kLine - past);
  const int64_t lines = whole_lines ? (count - head) / kLine * kLine : 0;
  std::memcpy(to, from, static_cast<size_t>(head) * sizeof(float));
  for (int64_t i = head; i < head + lines; i += kLine)
    hn::Stream(hn::LoadU(d, from + i), d, to + i);
  std::memcpy(to + head + lines, from + head + lines,
              static_cast<size_t>(count - head - lines) * sizeof(float));
}

}  // namespace wide::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::kernels {

WIDE_DISPATCHED(void, stream_copy, (float* to, const float* from, int64_t count), to, from, count)

void stream_fence() { hwy::FlushStream(); }

}  // namespace wide::kernels
#endif
