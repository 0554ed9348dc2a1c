// Reading floats that may not be in cache, for kernels under Highway. Included after
// primitives/kernels/highway.h and, like it, once for every instruction set.
//
// Rows are read one after the other in vectors of 32 bytes, so that the core prefetches. With
// vectors of a whole cache line, or several rows side by side, it does not, and reading is up to
// twice as slow (AMD EPYC with AVX-512: 2.7 against 1.5 ms for sums of 32 MB and their results).
// Data that is read again is in cache, where vectors of any width are fast.

#if defined(WIDE_FIRST_READ_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef WIDE_FIRST_READ_TOGGLE
#undef WIDE_FIRST_READ_TOGGLE
#else
#define WIDE_FIRST_READ_TOGGLE
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace wide::first_read::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 8>;
using V = hn::Vec<D>;

/// Loads a vector of any width by loads of 32 bytes.
HWY_INLINE hn::Vec<hn::ScalableTag<float>> load(const float* x) {
  const hn::ScalableTag<float> all;
#if HWY_MAX_BYTES == 64
  return hn::Combine(all, hn::LoadU(D(), x + hn::MaxLanes(D())), hn::LoadU(D(), x));
#else
  return hn::LoadU(all, x);
#endif
}

/// Folds `count` floats by `step(sum, values)`; the last vector is padded with `nothing`. Four
/// independent sums start from `nothing`; `join` combines two.
template <class Step, class Join>
HWY_INLINE V fold(const float* x, int64_t count, float nothing, const Step& step,
                  const Join& join) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V a = hn::Set(d, nothing), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = step(a, hn::LoadU(d, x + i));
    b = step(b, hn::LoadU(d, x + i + lanes));
    c = step(c, hn::LoadU(d, x + i + 2 * lanes));
    e = step(e, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) a = step(a, hn::LoadU(d, x + i));
  if (i < count) {
    HWY_ALIGN float rest[hn::MaxLanes(d)];
    hn::Store(hn::Set(d, nothing), d, rest);
    std::copy(x + i, x + count, rest);
    b = step(b, hn::Load(d, rest));
  }
  return join(join(a, b), join(c, e));
}

/// `fold` for sums that are added.
template <class Step>
HWY_INLINE float fold_sum(const float* x, int64_t count, const Step& step) {
  const auto add = [](V a, V b) HWY_ATTR { return hn::Add(a, b); };
  return hn::GetLane(hn::SumOfLanes(D(), fold(x, count, 0, step, add)));
}

HWY_INLINE float sum(const float* x, int64_t count) {
  return fold_sum(x, count, [](V sum, V v) HWY_ATTR { return hn::Add(sum, v); });
}
HWY_INLINE float sum_squares(const float* x, int64_t count) {
  return fold_sum(x, count, [](V sum, V v) HWY_ATTR { return hn::MulAdd(v, v, sum); });
}

}  // namespace wide::first_read::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
