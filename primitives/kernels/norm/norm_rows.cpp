#include "primitives/kernels/norm/norm_rows.h"

#include <algorithm>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/norm/norm_rows.cpp"
#include "primitives/kernels/highway.h"
// Included once for each instruction set.
#include "primitives/kernels/first_read.h"
#include "primitives/kernels/pointwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace wide::norm_rows::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace first = wide::first_read::HWY_NAMESPACE;
namespace vm = wide::vector_math::HWY_NAMESPACE;
using vm::D;
using vm::V;

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }
HWY_INLINE V load(const float* x) { return hn::LoadU(D(), x); }

template <bool relu>
HWY_INLINE V finished(V v) {
  return relu ? vm::blend(hn::Lt(v, hn::Zero(D())), hn::Zero(D()), v) : v;
}

template <bool stream>
HWY_INLINE void put(V v, float* to) {
  if constexpr (stream)
    hn::Stream(v, D(), to);
  else
    hn::StoreU(v, D(), to);
}

/// Sums `term` over K rows of `d` floats at once, to hide latency. Each sum fills all lanes of its
/// vector; lanes behind a row's end do not count.
template <int K, class Term>
HWY_INLINE void sum_rows(const float* x, int64_t d, const Term& term, V* sum) {
  V even[K], odd[K];
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k) even[k] = odd[k] = hn::Zero(D());
  int64_t i = 0;
  for (; i + 2 * lanes() <= d; i += 2 * lanes())
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) {
      even[k] = term(load(x + k * d + i), k, even[k]);
      odd[k] = term(load(x + k * d + i + lanes()), k, odd[k]);
    }
  for (; i + lanes() <= d; i += lanes())
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) even[k] = term(load(x + k * d + i), k, even[k]);
  if (i < d) {
    const vm::M own = hn::FirstN(D(), static_cast<size_t>(d - i));
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) {
      const V last = vm::load_some(x + k * d + i, d - i, hn::Zero(D()));
      odd[k] = vm::blend(own, term(last, k, odd[k]), odd[k]);
    }
  }
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k) sum[k] = hn::SumOfLanes(D(), hn::Add(even[k], odd[k]));
}

template <int K, bool rms, bool relu, bool stream>
HWY_INLINE void normalize_rows(const float* x, const float* w, const float* b, float* y, int64_t d,
                               float eps) {
  const V share = vm::set(1.0F / static_cast<float>(d));
  V mean[K], scale[K];
  if constexpr (rms) {
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) scale[k] = vm::set(first::sum_squares(x + k * d, d));
  } else {
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) mean[k] = hn::Mul(vm::set(first::sum(x + k * d, d)), share);
    sum_rows<K>(
        x, d,
        [&](V v, int k, V sum) HWY_ATTR {
          const V away = hn::Sub(v, mean[k]);
          return hn::MulAdd(away, away, sum);
        },
        scale);
  }
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k)
    scale[k] = hn::Div(vm::set(1.0F), hn::Sqrt(hn::Add(hn::Mul(scale[k], share), vm::set(eps))));
  const auto shifted = [&](V v, int k, V weight, V bias) HWY_ATTR {
    return finished<relu>(
        hn::MulAdd(hn::Mul(rms ? v : hn::Sub(v, mean[k]), scale[k]), weight, bias));
  };
  int64_t i = 0;
  for (; i + lanes() <= d; i += lanes()) {
    const V weight = load(w + i), bias = load(b + i);
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k)
      put<stream>(shifted(load(x + k * d + i), k, weight, bias), y + k * d + i);
  }
  if (i == d) return;
  const V weight = vm::load_some(w + i, d - i, hn::Zero(D())),
          bias = vm::load_some(b + i, d - i, hn::Zero(D()));
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k)
    vm::store_some(shifted(vm::load_some(x + k * d + i, d - i, hn::Zero(D())), k, weight, bias),
                   y + k * d + i, d - i);
}

template <bool rms, bool relu, bool stream>
HWY_INLINE void all_rows(const float* x, const float* w, const float* b, float* y, int64_t rows,
                         int64_t d, float eps) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4)
    normalize_rows<4, rms, relu, stream>(x + r * d, w, b, y + r * d, d, eps);
  for (; r < rows; ++r) normalize_rows<1, rms, relu, stream>(x + r * d, w, b, y + r * d, d, eps);
}

void layer_rows(const float* x, const float* w, const float* b, float* y, int64_t rows, int64_t d,
                float eps, bool rms, bool relu, bool stream) {
  const auto all = [&](auto is_rms, auto has_relu) HWY_ATTR {
    stream ? all_rows<is_rms, has_relu, true>(x, w, b, y, rows, d, eps)
           : all_rows<is_rms, has_relu, false>(x, w, b, y, rows, d, eps);
  };
  constexpr std::true_type yes;
  constexpr std::false_type no;
  if (rms)
    relu ? all(yes, yes) : all(yes, no);
  else
    relu ? all(no, yes) : all(no, no);
}

/// Sums `term` over a plane, four vectors at a time.
template <class Term>
HWY_INLINE float sum_plane(const float* x, int64_t n, const Term& term) {
  V a = hn::Zero(D()), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes() <= n; i += 4 * lanes()) {
    a = term(load(x + i), a);
    b = term(load(x + i + lanes()), b);
    c = term(load(x + i + 2 * lanes()), c);
    e = term(load(x + i + 3 * lanes()), e);
  }
  for (; i + lanes() <= n; i += lanes()) a = term(load(x + i), a);
  if (i < n)
    b = vm::blend(hn::FirstN(D(), static_cast<size_t>(n - i)),
                  term(vm::load_some(x + i, n - i, hn::Zero(D())), b), b);
  return hn::GetLane(hn::SumOfLanes(D(), hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

float plane_sum(const float* x, int64_t n) { return first::sum(x, n); }

float plane_squares(const float* x, int64_t n, float mean) {
  const V middle = vm::set(mean);
  return sum_plane(x, n, [middle](V v, V sum) HWY_ATTR {
    const V away = hn::Sub(v, middle);
    return hn::MulAdd(away, away, sum);
  });
}

template <bool relu, bool stream>
HWY_INLINE void shift_row(const float* x, float* y, int64_t n, V mean, V scale, V shift) {
  const auto shifted = [&](V v) HWY_ATTR {
    return finished<relu>(hn::MulAdd(hn::Sub(v, mean), scale, shift));
  };
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) put<stream>(shifted(first::load(x + i)), y + i);
  if (i < n) vm::store_some(shifted(vm::load_some(x + i, n - i, hn::Zero(D()))), y + i, n - i);
}

void plane_shift(const float* x, float* y, int64_t n, float mean, float scale, float shift,
                 bool relu, bool stream) {
  const V m = vm::set(mean), s = vm::set(scale), t = vm::set(shift);
  if (relu)
    stream ? shift_row<true, true>(x, y, n, m, s, t) : shift_row<true, false>(x, y, n, m, s, t);
  else
    stream ? shift_row<false, true>(x, y, n, m, s, t) : shift_row<false, false>(x, y, n, m, s, t);
}

/// Sums the rows of one vector of columns, or of its first `count` columns.
template <bool squares>
HWY_INLINE V sum_column(const float* x, int64_t rows, int64_t stride, int64_t count, V middle) {
  V sum = hn::Zero(D());
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    const V v = count == lanes() ? load(x) : vm::load_some(x, count, hn::Zero(D()));
    const V away = hn::Sub(v, middle);
    sum = squares ? hn::MulAdd(away, away, sum) : hn::Add(sum, v);
  }
  return sum;
}

void column_sums(const float* x, int64_t rows, int64_t stride, int64_t width, const float* mean,
                 bool squares, double* sums) {
  constexpr int64_t kChunk = 128;  // rows summed in float32 before they join the float64 sum
  std::fill_n(sums, width, 0.0);
  for (int64_t r = 0; r < rows; r += kChunk) {
    const int64_t some = std::min(rows - r, kChunk);
    for (int64_t j = 0; j < width; j += lanes()) {
      const int64_t count = std::min(lanes(), width - j);
      const V middle = vm::load_some(mean + j, count, hn::Zero(D()));
      const float* from = x + r * stride + j;
      HWY_ALIGN float partial[hn::MaxLanes(D())];
      hn::Store(squares ? sum_column<true>(from, some, stride, count, middle)
                        : sum_column<false>(from, some, stride, count, middle),
                D(), partial);
      for (int64_t k = 0; k < count; ++k) sums[j + k] += partial[k];
    }
  }
}

template <bool relu>
HWY_INLINE void shift_column(const float* x, float* y, int64_t rows, int64_t from, int64_t to,
                             int64_t count, V mean, V scale, V shift) {
  for (int64_t r = 0; r < rows; ++r, x += from, y += to) {
    const V v = count == lanes() ? load(x) : vm::load_some(x, count, hn::Zero(D()));
    const V made = finished<relu>(hn::MulAdd(hn::Sub(v, mean), scale, shift));
    if (count == lanes())
      hn::StoreU(made, D(), y);
    else
      vm::store_some(made, y, count);
  }
}

void column_shift(const float* x, float* y, int64_t rows, int64_t from, int64_t to, int64_t width,
                  const float* mean, const float* scale, const float* shift, bool relu) {
  for (int64_t j = 0; j < width; j += lanes()) {
    const int64_t count = std::min(lanes(), width - j);
    const auto own = [&](const float* each)
                         HWY_ATTR { return vm::load_some(each + j, count, hn::Zero(D())); };
    const V m = own(mean), s = own(scale), t = own(shift);
    relu ? shift_column<true>(x + j, y + j, rows, from, to, count, m, s, t)
         : shift_column<false>(x + j, y + j, rows, from, to, count, m, s, t);
  }
}

}  // namespace wide::norm_rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::norm_rows {

WIDE_DISPATCHED(void, layer_rows,
                (const float* x, const float* w, const float* b, float* y, int64_t rows, int64_t d,
                 float eps, bool rms, bool relu, bool stream),
                x, w, b, y, rows, d, eps, rms, relu, stream)
WIDE_DISPATCHED(float, plane_sum, (const float* x, int64_t n), x, n)
WIDE_DISPATCHED(float, plane_squares, (const float* x, int64_t n, float mean), x, n, mean)
WIDE_DISPATCHED(void, plane_shift,
                (const float* x, float* y, int64_t n, float mean, float scale, float shift,
                 bool relu, bool stream),
                x, y, n, mean, scale, shift, relu, stream)
WIDE_DISPATCHED(void, column_sums,
                (const float* x, int64_t rows, int64_t stride, int64_t width, const float* mean,
                 bool squares, double* sums),
                x, rows, stride, width, mean, squares, sums)
WIDE_DISPATCHED(void, column_shift,
                (const float* x, float* y, int64_t rows, int64_t from, int64_t to, int64_t width,
                 const float* mean, const float* scale, const float* shift, bool relu),
                x, y, rows, from, to, width, mean, scale, shift, relu)

}  // namespace wide::norm_rows
#endif
