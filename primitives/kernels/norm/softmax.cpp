#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/lower/plan/operator_traits.h"
#include "primitives/kernels/registration.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/norm/softmax.cpp"
#include "primitives/kernels/highway.h"
// Included once for each instruction set.
#include "primitives/kernels/pointwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace wide::softmax_rows::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = wide::vector_math::HWY_NAMESPACE;
using vm::D;
using vm::V;

/// The elements of a row behind its last whole vector, as a vector with -infinity, which adds
/// nothing, in the other lanes.
struct Rest {
  int64_t count;
  explicit Rest(int64_t width) : count(width % static_cast<int64_t>(hn::Lanes(D()))) {}
  bool exists() const { return count > 0; }
  V load(const float* from) const { return vm::load_some(from, count, nothing()); }
  void store(V v, float* to) const { vm::store_some(v, to, count); }
  static V nothing() { return vm::set(-std::numeric_limits<float>::infinity()); }
};

/// Returns the sum of e^(x - most) over a row, where `most` is its greatest element. `keep`: stores
/// these for whole vectors in `made`.
template <bool keep>
HWY_INLINE V row_sum(const float* x, int64_t whole, const Rest& rest, V* most, float* made) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V last = rest.exists() ? rest.load(x + whole) : Rest::nothing();
  *most = last;
  for (int64_t i = 0; i < whole; i += lanes) *most = hn::Max(*most, hn::LoadU(d, x + i));
  // A NaN lost here reappears in the sum.
  *most = hn::MaxOfLanes(d, *most);
  V sum = hn::Zero(d);
  if (rest.exists()) sum = vm::exp_below(hn::Sub(last, *most));
  for (int64_t i = 0; i < whole; i += lanes) {
    const V e = vm::exp_below(hn::Sub(hn::LoadU(d, x + i), *most));
    if (keep) hn::StoreU(e, d, made + i);
    sum = hn::Add(sum, e);
  }
  return hn::SumOfLanes(d, sum);
}

void rows(const float* x, int64_t count, int64_t width, float* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = width / lanes * lanes;
  const Rest rest(width);
  for (int64_t r = 0; r < count; ++r, x += width, y += width) {
    // Loaded before it is overwritten.
    V most, end = rest.exists() ? rest.load(x + whole) : Rest::nothing();
    const V share = hn::Div(vm::set(1.0F), row_sum<true>(x, whole, rest, &most, y));
    end = vm::exp_below(hn::Sub(end, most));
    for (int64_t i = 0; i < whole; i += lanes)
      hn::StoreU(hn::Mul(hn::LoadU(d, y + i), share), d, y + i);
    if (rest.exists()) rest.store(hn::Mul(end, share), y + whole);
  }
}

/// log_softmax of as many rows at a time as there are lanes, for one vector of logarithms.
void log_rows(const float* x, int64_t count, int64_t width, float* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = width / lanes * lanes;
  const Rest rest(width);
  for (int64_t first = 0; first < count; first += lanes) {
    const int64_t some = std::min(lanes, count - first);
    HWY_ALIGN float most[hn::MaxLanes(D())], sums[hn::MaxLanes(D())] = {};
    for (int64_t r = 0; r < some; ++r) {
      V greatest;
      sums[r] =
          hn::GetLane(row_sum<false>(x + (first + r) * width, whole, rest, &greatest, nullptr));
      most[r] = hn::GetLane(greatest);
    }
    hn::Store(vm::log(hn::Load(d, sums)), d, sums);
    for (int64_t r = 0; r < some; ++r) {
      const float* from = x + (first + r) * width;
      float* to = y + (first + r) * width;
      const V greatest = vm::set(most[r]), away = vm::set(sums[r]);
      for (int64_t i = 0; i < whole; i += lanes)
        hn::StoreU(hn::Sub(hn::Sub(hn::LoadU(d, from + i), greatest), away), d, to + i);
      if (rest.exists())
        rest.store(hn::Sub(hn::Sub(rest.load(from + whole), greatest), away), to + whole);
    }
  }
}

}  // namespace wide::softmax_rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace wide::softmax_rows {
namespace {
#if HWY_ONCE

HWY_EXPORT(rows);
HWY_EXPORT(log_rows);

using at::Tensor;

/// softmax, or its logarithm, over the last dimension of a contiguous float32 tensor. A row with
/// NaN, or of -infinity only, is NaN. The relative error is below 7e-7 + 1e-9 * (row's length) +
/// 6e-8 * (row's greatest - x), the last from rounding x - greatest; that of the logarithm is below
/// the first two terms, relative to max(|result|, 1). Results below e^-87 of the greatest are zero.
Tensor& softmax_out(const Tensor& x, bool log, Tensor& out) {
  TORCH_CHECK(x.dim() > 0 && x.is_contiguous() && out.is_contiguous() && out.sizes() == x.sizes(),
              "wide::softmax: got x ", x.sizes(), " and out ", out.sizes(),
              ", expected them contiguous and alike");
  if (x.numel() == 0) return out;
  const int64_t width = x.size(-1), count = x.numel() / width;
  const float* px = x.const_data_ptr<float>();
  float* py = out.mutable_data_ptr<float>();
  at::parallel_for(0, count, std::max<int64_t>(1, 8192 / width), [&](int64_t begin, int64_t end) {
    const auto work = log ? HWY_DYNAMIC_DISPATCH(log_rows) : HWY_DYNAMIC_DISPATCH(rows);
    work(px + begin * width, end - begin, width, py + begin * width);
  });
  return out;
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(m, "softmax", "Tensor x, bool log", kernels::like_first,
                               softmax_out);
}

[[maybe_unused]] const bool registered =
    add_operator_traits({.op = "wide::softmax", .in_place = true, .cheap = true, .softmax = true});

#endif
}  // namespace
}  // namespace wide::softmax_rows
