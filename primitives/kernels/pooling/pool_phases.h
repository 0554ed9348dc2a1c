// Rows of planes for strided windows, for kernels under Highway. Included after
// primitives/kernels/highway.h and, like it, once for every instruction set.

#if defined(WIDE_POOL_PHASES_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef WIDE_POOL_PHASES_TOGGLE
#undef WIDE_POOL_PHASES_TOGGLE
#else
#define WIDE_POOL_PHASES_TOGGLE
#endif

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace wide::pool_phases::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// to[p][i] = from[i * stride + p]: so that strided windows become neighbours.
inline void split(const float* from, int64_t stride, int64_t count, float* to, int64_t pitch) {
  int64_t i = 0;
  if (stride == 2) {
    const hn::ScalableTag<float> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= count; i += lanes) {
      hn::Vec<decltype(d)> even, odd;
      hn::LoadInterleaved2(d, from + 2 * i, even, odd);
      hn::StoreU(even, d, to + i);
      hn::StoreU(odd, d, to + pitch + i);
    }
  }
  for (; i < count; ++i)
    for (int64_t p = 0; p < stride; ++p) to[p * pitch + i] = from[i * stride + p];
}

}  // namespace wide::pool_phases::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
