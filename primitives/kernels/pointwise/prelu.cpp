#include "primitives/kernels/pointwise/prelu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "primitives/kernels/operators.h"
#include "primitives/kernels/registration.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/pointwise/prelu.cpp"
#include "primitives/kernels/highway.h"
// Included once for each instruction set.
#include "primitives/kernels/first_read.h"
#include "primitives/kernels/pointwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace wide::prelu_rows::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace first = wide::first_read::HWY_NAMESPACE;
namespace vm = wide::vector_math::HWY_NAMESPACE;
using vm::D;
using vm::V;

/// PReLU of a vector; NaN, which is not above zero, stays NaN.
HWY_INLINE V bent(V x, V slope) {
  return vm::blend(hn::Gt(x, hn::Zero(D())), x, hn::Mul(x, slope));
}

void bend(float* y, const float* x, float slope, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const V own = vm::set(slope);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(bent(first::load(x + i), own), D(), y + i);
  if (i < count) vm::store_some(bent(vm::load_some(x + i, count - i, own), own), y + i, count - i);
}

void bend_each(float* y, const float* x, const float* slope, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(bent(first::load(x + i), hn::LoadU(D(), slope + i)), D(), y + i);
  if (i < count) {
    const V zero = hn::Zero(D()), own = vm::load_some(slope + i, count - i, zero);
    vm::store_some(bent(vm::load_some(x + i, count - i, zero), own), y + i, count - i);
  }
}

}  // namespace wide::prelu_rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide {

namespace prelu_rows {

WIDE_DISPATCHED(void, bend, (float* y, const float* x, float slope, int64_t count), y, x, slope,
                count)
WIDE_DISPATCHED(void, bend_each, (float* y, const float* x, const float* slope, int64_t count), y,
                x, slope, count)

}  // namespace prelu_rows

namespace {

using at::Tensor;

/// Planes of `plane` elements with one slope each; plane p of a model takes slope p % channels.
struct Planes {
  const float *x, *slopes;
  int64_t plane, channels, per_model, slope_stride;

  /// Computes elements [from, from + count) of the whole tensor.
  void run(float* y, int64_t from, int64_t count) const {
    for (int64_t i = 0; i < count;) {
      const int64_t at = from + i, model = at / per_model, inside = at % per_model;
      const float* own = slopes + model * slope_stride;
      if (plane == 1 && channels > 1) {  // a slope per element
        const int64_t c = inside % channels, length = std::min(count - i, channels - c);
        prelu_rows::bend_each(y + i, x + at, own + c, length);
        i += length;
      } else {
        const int64_t length = std::min(count - i, plane - inside % plane);
        prelu_rows::bend(y + i, x + at, own[inside / plane % channels], length);
        i += length;
      }
    }
  }
};

Tensor& prelu_out(const Tensor& x, const Tensor& slopes, Tensor& out) {
  TORCH_CHECK(x.dim() >= 2 && slopes.dim() == 2 && slopes.size(0) == x.size(0) &&
                  (slopes.size(1) == 1 || (x.dim() > 2 && slopes.size(1) == x.size(2))),
              "wide::prelu: x ", x.sizes(), " and slopes ", slopes.sizes(), " do not fit");
  TORCH_CHECK(out.is_contiguous() && out.numel() == x.numel(), "wide::prelu: out ", out.sizes(),
              " is not a contiguous ", x.sizes());
  const Tensor dense = x.contiguous(), own = slopes.contiguous();
  const int64_t per_model = x.numel() / x.size(0), channels = slopes.size(1);
  const int64_t plane = channels == 1 ? per_model : per_model / (x.size(1) * channels);
  const Planes planes{dense.const_data_ptr<float>(),
                      own.const_data_ptr<float>(),
                      plane,
                      channels,
                      per_model,
                      channels};
  float* y = out.mutable_data_ptr<float>();
  // No streaming stores: they make one pass over large tensors up to 1.5 times as slow.
  at::parallel_for(0, x.numel(), 16384,
                   [&](int64_t begin, int64_t end) { planes.run(y + begin, begin, end - begin); });
  return out;
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(m, "prelu", "Tensor x, Tensor slopes", kernels::like_first,
                               prelu_out);
}

}  // namespace

Tensor prelu(const Tensor& x, const Tensor& slopes) { return kernels::call("prelu", {x, slopes}); }

}  // namespace wide
#endif
