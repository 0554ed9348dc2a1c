// Rows of planes, for kernels under Highway: by vectors, and reordered for strided windows.
// Included after primitives/kernels/highway.h and, like it, once for every instruction set.

#if defined(WIDE_POOL_PHASES_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef WIDE_POOL_PHASES_TOGGLE
#undef WIDE_POOL_PHASES_TOGGLE
#else
#define WIDE_POOL_PHASES_TOGGLE
#endif

#include <algorithm>
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

/// Calls `work(d, i)` for elements [i, i + lanes) until all `count` are done, some of them twice;
/// false if there are fewer than lanes.
template <class Tag, class Work>
HWY_INLINE bool by_vectors(Tag d, int64_t count, const Work& work) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count < lanes) return false;
  for (int64_t i = 0; i < count; i += lanes) work(d, std::min(i, count - lanes));
  return true;
}

/// `by_vectors` with the widest vectors that fit, as rows of planes are short.
template <class Work>
HWY_INLINE void along(int64_t count, const Work& work) {
  if (by_vectors(hn::ScalableTag<float>(), count, work)) return;
  if (by_vectors(hn::CappedTag<float, 8>(), count, work)) return;
  if (by_vectors(hn::CappedTag<float, 4>(), count, work)) return;
  by_vectors(hn::CappedTag<float, 1>(), count, work);
}

}  // namespace wide::pool_phases::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
