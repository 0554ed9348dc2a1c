#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "engine/lower/plan/operator_traits.h"
#include "primitives/kernels/registration.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/norm/softmax_backward.cpp"
#include "primitives/kernels/highway.h"
// Included once for each instruction set.
#include "primitives/kernels/pointwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace wide::softmax_backward_rows::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = wide::vector_math::HWY_NAMESPACE;
using vm::D;
using vm::V;

/// Elements behind a row's last whole vector are computed in a vector padded with zeros.
template <bool log>
void work(const float* g, const float* y, int64_t count, int64_t width, float* to) {
  const D d;
  const V zero = hn::Zero(d);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = width / lanes * lanes, rest = width - whole;
  const auto share = [](V gradient, V result)
                         HWY_ATTR { return log ? gradient : hn::Mul(gradient, result); };
  for (int64_t r = 0; r < count; ++r, g += width, y += width, to += width) {
    const V last_g = rest > 0 ? vm::load_some(g + whole, rest, zero) : zero;
    const V last_y = rest > 0 ? vm::load_some(y + whole, rest, zero) : zero;
    V sum = share(last_g, last_y);
    for (int64_t i = 0; i < whole; i += lanes)
      sum = hn::Add(sum, share(hn::LoadU(d, g + i), hn::LoadU(d, y + i)));
    sum = hn::SumOfLanes(d, sum);
    const auto made = [sum](V gradient, V result) HWY_ATTR {
      return log ? hn::NegMulAdd(vm::exp(result), sum, gradient)
                 : hn::Mul(hn::Sub(gradient, sum), result);
    };
    for (int64_t i = 0; i < whole; i += lanes)
      hn::StoreU(made(hn::LoadU(d, g + i), hn::LoadU(d, y + i)), d, to + i);
    if (rest > 0) vm::store_some(made(last_g, last_y), to + whole, rest);
  }
}

void rows(const float* g, const float* y, int64_t count, int64_t width, float* to) {
  work<false>(g, y, count, width, to);
}
void log_rows(const float* g, const float* y, int64_t count, int64_t width, float* to) {
  work<true>(g, y, count, width, to);
}

}  // namespace wide::softmax_backward_rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace wide::softmax_backward_rows {
namespace {
#if HWY_ONCE

HWY_EXPORT(rows);
HWY_EXPORT(log_rows);

using at::Tensor;

/// The gradient of softmax, or of its logarithm, over the last dimension: (g - Σ g y) y, or g - e^y
/// Σ g, where g is the gradient of the result y; contiguous float32 of the same sizes. A row with
/// NaN is NaN.
Tensor& softmax_backward_out(const Tensor& gradient, const Tensor& y, bool log, Tensor& out) {
  TORCH_CHECK(gradient.dim() > 0 && gradient.is_contiguous() && y.is_contiguous() &&
                  out.is_contiguous() && y.sizes() == gradient.sizes() &&
                  out.sizes() == gradient.sizes(),
              "wide::softmax_backward: got a gradient ", gradient.sizes(), ", y ", y.sizes(),
              " and out ", out.sizes(), ", expected them contiguous and alike");
  if (y.numel() == 0) return out;
  const int64_t width = y.size(-1), count = y.numel() / width;
  const float *pg = gradient.const_data_ptr<float>(), *py = y.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  at::parallel_for(0, count, std::max<int64_t>(1, 8192 / width), [&](int64_t begin, int64_t end) {
    const auto run = log ? HWY_DYNAMIC_DISPATCH(log_rows) : HWY_DYNAMIC_DISPATCH(rows);
    const int64_t skip = begin * width;
    run(pg + skip, py + skip, end - begin, width, to + skip);
  });
  return out;
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(m, "softmax_backward", "Tensor gradient, Tensor y, bool log",
                               kernels::like_first, softmax_backward_out);
}

[[maybe_unused]] const bool registered =
    add_operator_traits({.op = "wide::softmax_backward", .in_place = true});

#endif
}  // namespace
}  // namespace wide::softmax_backward_rows
