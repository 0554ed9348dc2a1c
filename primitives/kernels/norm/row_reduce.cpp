#include "primitives/kernels/norm/row_reduce.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "primitives/kernels/registration.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/norm/row_reduce.cpp"
#include "primitives/kernels/highway.h"
// Included once for each instruction set.
#include "primitives/kernels/first_read.h"
#include "primitives/kernels/pointwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace wide::row_reduce::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace first = wide::first_read::HWY_NAMESPACE;
namespace vm = wide::vector_math::HWY_NAMESPACE;
using vm::D;
using vm::V;

float sum(const float* x, int64_t count) { return first::sum(x, count); }

void sums(const float* x, int64_t rows, int64_t width, float divisor, float* y) {
  for (int64_t r = 0; r < rows; ++r) y[r] = sum(x + r * width, width) / divisor;
}

void column_sums(const float* x, int64_t rows, int64_t width, float* to) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= width; i += lanes) {
    V all = hn::LoadU(d, x + i);
    for (int64_t r = 1; r < rows; ++r) all = hn::Add(all, hn::LoadU(d, x + r * width + i));
    hn::StoreU(all, d, to + i);
  }
  if (i == width) return;
  const V nothing = hn::Zero(d);
  V all = vm::load_some(x + i, width - i, nothing);
  for (int64_t r = 1; r < rows; ++r)
    all = hn::Add(all, vm::load_some(x + r * width + i, width - i, nothing));
  vm::store_some(all, to + i, width - i);
}

constexpr float kLowest = -std::numeric_limits<float>::infinity();

/// The greatest element; NaN if any is NaN.
HWY_INLINE float greatest(const float* x, int64_t count) {
  using F = first::V;
  const first::D d;
  const auto greater = [](F a, F b) HWY_ATTR {
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  };
  const F most = first::fold(x, count, kLowest, greater, greater);
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(most, d, lanes);
  float one = lanes[0];
  for (const float lane : lanes)
    if (lane > one || std::isnan(lane)) one = lane;
  return one;
}

void greatest_of_rows(const float* x, int64_t rows, int64_t width, float* y) {
  for (int64_t r = 0; r < rows; ++r) y[r] = greatest(x + r * width, width);
}

void places(const float* x, int64_t rows, int64_t width, int64_t* y) {
  for (int64_t r = 0; r < rows; ++r, x += width) {
    const float most = greatest(x, width);
    int64_t i = 0;
    while (std::isnan(most) ? !std::isnan(x[i]) : x[i] != most) ++i;
    y[r] = i;
  }
}

/// logsumexp of as many rows at a time as there are lanes, for one vector of logarithms.
void log_sums(const float* x, int64_t rows, int64_t width, float* y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t first = 0; first < rows; first += lanes) {
    const int64_t some = std::min(lanes, rows - first);
    HWY_ALIGN float most[hn::MaxLanes(D())] = {}, all[hn::MaxLanes(D())] = {};
    for (int64_t r = 0; r < some; ++r) {
      const float* row = x + (first + r) * width;
      most[r] = greatest(row, width);
      if (std::isinf(most[r])) most[r] = 0;  // avoids inf - inf
      const V away = vm::set(most[r]);
      // Lanes behind the row's end are -inf, whose exponential is zero.
      const D d;
      V sum = hn::Zero(d);
      int64_t i = 0;
      for (; i + lanes <= width; i += lanes)
        sum = hn::Add(sum, vm::exp(hn::Sub(hn::LoadU(d, row + i), away)));
      if (i < width)
        sum = hn::Add(sum,
                      vm::exp(hn::Sub(vm::load_some(row + i, width - i, vm::set(kLowest)), away)));
      all[r] = hn::GetLane(hn::SumOfLanes(d, sum));
    }
    const V result = hn::Add(hn::Load(D(), most), vm::log(hn::Load(D(), all)));
    vm::store_some(result, y + first, some);
  }
}

}  // namespace wide::row_reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide {
namespace row_reduce {
HWY_EXPORT(sum);
HWY_EXPORT(sums);
HWY_EXPORT(column_sums);
HWY_EXPORT(greatest_of_rows);
HWY_EXPORT(places);
HWY_EXPORT(log_sums);
}  // namespace row_reduce

namespace {

using at::Tensor;

std::vector<int64_t> result_sizes(const Tensor& x, int64_t dims, bool keepdim) {
  std::vector<int64_t> sizes = x.sizes().vec();
  TORCH_CHECK(dims > 0 && dims <= x.dim(), "wide::reduce_rows: got ", dims, " dimensions of x ",
              x.sizes());
  sizes.resize(sizes.size() - static_cast<size_t>(dims));
  if (keepdim) sizes.resize(static_cast<size_t>(x.dim()), 1);
  return sizes;
}

/// Each row of `x` `[rows..., width]` reduced to one number: `kind` "sum", "mean", "amax" (NaN if
/// any is NaN), "logsumexp", or "argmax" (int64: the first greatest; NaN counts as greatest). The
/// last `dims` dimensions form a row, of at least one element, and keep size 1 with `keepdim`. x
/// contiguous float32 on the CPU. Inference only: its gradient is refused.
Tensor& reduce_rows_out(const Tensor& x, c10::string_view kind, int64_t dims, bool keepdim,
                        Tensor& out) {
  using namespace row_reduce;
  int64_t width = 1;
  for (int64_t k = x.dim() - dims; k < x.dim(); ++k) width *= x.size(k);
  TORCH_CHECK(x.is_contiguous() && out.is_contiguous() && width > 0 &&
                  out.sizes() == at::IntArrayRef(result_sizes(x, dims, keepdim)),
              "wide::reduce_rows: got x ", x.sizes(), " and out ", out.sizes(),
              ", expected them contiguous and to fit");
  const int64_t rows = out.numel();
  const float* px = x.const_data_ptr<float>();
  const bool place = kind == "argmax";
  float* py = place ? nullptr : out.mutable_data_ptr<float>();
  int64_t* to = place ? out.mutable_data_ptr<int64_t>() : nullptr;
  const bool mean = kind == "mean";
  TORCH_CHECK(place || mean || kind == "sum" || kind == "amax" || kind == "logsumexp",
              "wide::reduce_rows: got ", kind, ", expected sum, mean, amax, logsumexp or argmax");
  at::parallel_for(0, rows, std::max<int64_t>(1, 32768 / width), [&](int64_t begin, int64_t end) {
    const float* from = px + begin * width;
    if (place)
      HWY_DYNAMIC_DISPATCH(places)(from, end - begin, width, to + begin);
    else if (kind == "amax")
      HWY_DYNAMIC_DISPATCH(greatest_of_rows)(from, end - begin, width, py + begin);
    else if (kind == "logsumexp")
      HWY_DYNAMIC_DISPATCH(log_sums)(from, end - begin, width, py + begin);
    else
      HWY_DYNAMIC_DISPATCH(sums)
    (from, end - begin, width, mean ? static_cast<float>(width) : 1.0F, py + begin);
  });
  return out;
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(
      m, "reduce_rows", "Tensor x, str kind, int dims, bool keepdim",
      [](const Tensor& x, c10::string_view kind, int64_t dims, bool keepdim) {
        return at::empty(result_sizes(x, dims, keepdim),
                         x.options().dtype(kind == "argmax" ? at::kLong : at::kFloat));
      },
      reduce_rows_out, {.tags = {at::Tag::reduction}});
}

}  // namespace

float sum_of_row(const float* x, int64_t count) {
  using namespace row_reduce;
  return HWY_DYNAMIC_DISPATCH(sum)(x, count);
}

void sum_of_rows(const float* x, int64_t rows, int64_t width, float* sums) {
  using namespace row_reduce;
  HWY_DYNAMIC_DISPATCH(column_sums)(x, rows, width, sums);
}

}  // namespace wide
#endif
