#include "primitives/kernels/pooling/pool.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/native/Pool.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "engine/lower/plan/operator_traits.h"
#include "engine/measure/roofline.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/registration.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/pooling/pool.cpp"
#include "primitives/kernels/highway.h"
#include "primitives/kernels/pooling/pool_phases.h"

HWY_BEFORE_NAMESPACE();
namespace wide::pooling::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using pool_phases::HWY_NAMESPACE::along;

/// The taps [begin, end) with which window i lies inside an axis of `size`; `origin`: position of
/// tap 0.
struct Taps {
  int64_t origin, begin, end;
  Taps(const PoolWindow& p, int axis, int64_t i, int64_t size)
      : origin(i * p.stride[axis] - p.padding[axis]) {
    const int64_t step = p.dilation[axis];
    begin = origin < 0 ? (-origin + step - 1) / step : 0;
    end = std::min(p.kernel[axis], (size - origin + step - 1) / step);
  }
};

/// Combines a window's elements: the greatest (NaN if any is NaN), or the sum.
struct Greatest {
  static constexpr float kOfNone = -std::numeric_limits<float>::infinity();
  template <class Vec>
  static HWY_INLINE Vec of(Vec a, Vec b) {
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  }
};
struct Sum {
  static constexpr float kOfNone = 0.0F;
  template <class Vec>
  static HWY_INLINE Vec of(Vec a, Vec b) {
    return hn::Add(a, b);
  }
};

/// to[i] = `Of` over k of from[k][i], times `share`.
template <class Of>
HWY_INLINE void fold_rows(const float* const* from, int64_t rows, float share, float* to,
                          int64_t count) {
  if (rows == 0) {
    std::fill_n(to, count, Of::kOfNone);
    return;
  }
  along(count, [&](auto d, int64_t at) {
    auto all = hn::LoadU(d, from[0] + at);
    for (int64_t k = 1; k < rows; ++k) all = Of::of(all, hn::LoadU(d, from[k] + at));
    hn::StoreU(hn::Mul(all, hn::Set(d, share)), d, to + at);
  });
}

/// The most common pooling: 2 x 2 windows of stride 2 without padding, none cut off.
template <class Of>
HWY_INLINE void squares(const float* x, const PoolShape& s, float share, float* y) {
  for (int64_t i = 0; i < s.oh; ++i, x += 2 * s.w, y += s.ow) {
    const float* below = x + s.w;
    along(s.ow, [&](auto d, int64_t at) {
      hn::Vec<decltype(d)> a, b, c, e;
      hn::LoadInterleaved2(d, x + 2 * at, a, b);
      hn::LoadInterleaved2(d, below + 2 * at, c, e);
      hn::StoreU(hn::Mul(Of::of(Of::of(a, b), Of::of(c, e)), hn::Set(d, share)), d, y + at);
    });
  }
}

void pool_squares(const float* x, const PoolShape& s, const PoolWindow& p, float* y) {
  p.average ? squares<Sum>(x, s, p.share(), y) : squares<Greatest>(x, s, 1, y);
}

/// Pools one plane. `line` and `phases` are scratch for stride * pitch floats (`line` holds kOfNone
/// at the padding), `from` for one pointer per tap.
template <class Of>
HWY_INLINE void plane(const float* x, const PoolShape& s, const PoolWindow& p, float* y,
                      float* line, float* phases, int64_t pitch, const float** from) {
  const int64_t stride = p.stride[1];
  for (int64_t i = 0; i < s.oh; ++i, y += s.ow) {
    const Taps taps(p, 0, i, s.h);
    for (int64_t k = taps.begin; k < taps.end; ++k)
      from[k - taps.begin] = x + (taps.origin + k * p.dilation[0]) * s.w;
    fold_rows<Of>(from, taps.end - taps.begin, 1, line + p.padding[1], s.w);
    const float* columns = line;
    if (stride > 1) {
      pool_phases::HWY_NAMESPACE::split(line, stride, pitch, phases, pitch);
      columns = phases;
    }
    for (int64_t k = 0; k < p.kernel[1]; ++k) {
      const int64_t away = k * p.dilation[1];
      from[k] = columns + away % stride * pitch + away / stride;
    }
    fold_rows<Of>(from, p.kernel[1], p.share(), y, s.ow);
  }
}

void pool_plane(const float* x, const PoolShape& s, const PoolWindow& p, float* y, float* line,
                float* phases, int64_t pitch, const float** from) {
  p.average ? plane<Sum>(x, s, p, y, line, phases, pitch, from)
            : plane<Greatest>(x, s, p, y, line, phases, pitch, from);
}

/// Computes row i of one image's result, channels last; `from`: scratch for one pointer per tap.
void pool_pixels(const float* x, const PoolShape& s, const PoolWindow& p, int64_t i, float* y,
                 const float** from) {
  const Taps rows(p, 0, i, s.h);
  for (int64_t j = 0; j < s.ow; ++j, y += s.channels) {
    const Taps columns(p, 1, j, s.w);
    int64_t count = 0;
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t c = columns.begin; c < columns.end; ++c)
        from[count++] =
            x + ((rows.origin + r * p.dilation[0]) * s.w + columns.origin + c * p.dilation[1]) *
                    s.channels;
    if (p.average)
      fold_rows<Sum>(from, count, p.share(), y, s.channels);
    else
      fold_rows<Greatest>(from, count, 1, y, s.channels);
  }
}

}  // namespace wide::pooling::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide {
namespace pooling {
HWY_EXPORT(pool_squares);
HWY_EXPORT(pool_plane);
HWY_EXPORT(pool_pixels);
}  // namespace pooling

namespace {

using at::Tensor;

void pool_planes(const float* x, int64_t planes, const Pooling& pooling, float* y) {
  const int64_t grain = std::max<int64_t>(1, 16384 / pooling.plane());
  at::parallel_for(0, planes, grain, [&](int64_t begin, int64_t end) {
    pooling.run(x + begin * pooling.plane(), end - begin, y + begin * pooling.results());
  });
}

void pool_images(const float* x, int64_t images, const PoolShape& s, const PoolWindow& p,
                 float* y) {
  using namespace pooling;
  const int64_t grain = std::max<int64_t>(1, 16384 / (s.w * s.channels * p.stride[0]));
  at::parallel_for(0, images * s.oh, grain, [&](int64_t begin, int64_t end) {
    std::vector<const float*> from(static_cast<size_t>(p.kernel[0] * p.kernel[1]));
    for (int64_t row = begin; row < end; ++row) HWY_DYNAMIC_DISPATCH(pool_pixels)
    (x + row / s.oh * s.h * s.w * s.channels, s, p, row % s.oh, y + row * s.ow * s.channels,
     from.data());
  });
}

Tensor& pool_out(const Tensor& x, const PoolWindow& p, bool ceil, Tensor& out) {
  TORCH_CHECK(x.dim() == 4 && out.dim() == 4, "wide::pool: got x ", x.sizes(), " and out ",
              out.sizes());
  const PoolShape s{x.size(1), x.size(2), x.size(3), out.size(2), out.size(3)};
  TORCH_CHECK(out.sizes() == p.result_sizes(x, ceil), "wide::pool: out ", out.sizes(),
              " does not fit x ", x.sizes());
  if (out.numel() == 0) return out;
  // A result of one pixel is contiguous in both layouts.
  const auto last = at::MemoryFormat::ChannelsLast;
  const bool planes = out.is_contiguous() && !(out.is_contiguous(last) && x.is_contiguous(last));
  const auto format = planes ? at::MemoryFormat::Contiguous : last;
  TORCH_CHECK(out.is_contiguous(format), "wide::pool: out has strides ", out.strides());
  const Tensor dense = x.contiguous(format);
  const float* px = dense.const_data_ptr<float>();
  float* py = out.mutable_data_ptr<float>();
  if (planes)
    pool_planes(px, x.size(0) * s.channels, {p, s}, py);
  else
    pool_images(px, x.size(0), s, p, py);
  return out;
}

Tensor allocated(const Tensor& x, const PoolWindow& p, bool ceil) {
  return at::empty(p.result_sizes(x, ceil), x.options().memory_format(x.suggest_memory_format()));
}

Tensor& max_pool_out(const Tensor& x, at::IntArrayRef kernel, at::IntArrayRef stride,
                     at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil, Tensor& out) {
  return pool_out(x, window_of("pool", kernel, stride, padding, dilation, false), ceil, out);
}

Tensor& average_pool_out(const Tensor& x, at::IntArrayRef kernel, at::IntArrayRef stride,
                         at::IntArrayRef padding, Tensor& out) {
  return pool_out(x, window_of("pool", kernel, stride, padding, {1, 1}, true), false, out);
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(
      m, "max_pool",
      "Tensor x, int[] kernel, int[] stride, int[] padding, int[] dilation, bool ceil",
      [](const Tensor& x, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
         at::IntArrayRef dilation, bool ceil) {
        return allocated(x, window_of("pool", kernel, stride, padding, dilation, false), ceil);
      },
      max_pool_out);
  kernels::add_filled_operator(
      m, "average_pool", "Tensor x, int[] kernel, int[] stride, int[] padding",
      [](const Tensor& x, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding) {
        return allocated(x, window_of("pool", kernel, stride, padding, {1, 1}, true), false);
      },
      average_pool_out);
}

std::vector<int64_t> list(const int64_t (&two)[2]) { return {two[0], two[1]}; }

/// The pooling as text, for a convolution that computes it in its epilogue; "" if it cannot.
std::string pool_text(const Program& program, const Node& node, bool average) {
  const Value &x = program.value(node.arguments[0].values[0]),
              &y = program.value(node.results[0].values[0]);
  if (!x.contiguous() || !y.contiguous() || y.numel() == 0) return "";
  const auto two = [&](size_t argument) { return node.arguments[argument].constant.toIntVector(); };
  return Pooling{window_of("pool", two(1), two(2), two(3),
                           average ? std::vector<int64_t>{1, 1} : two(4), average),
                 {x.sizes[1], x.sizes[2], x.sizes[3], y.sizes[2], y.sizes[3]}}
      .text();
}

/// FLOPs: a window for every result. A list of one number means equal sides.
double flops(const Program& program, const Node& node) {
  const auto kernel = node.arguments[1].constant.toIntVector();
  return double(program.value(node.results[0].values[0]).numel()) * double(kernel.front()) *
         double(kernel.back());
}

[[maybe_unused]] const bool counted =
    add_flops("wide::max_pool", flops) && add_flops("wide::max_pool_places", flops) &&
    add_flops("wide::average_pool", flops) && add_flops("aten::max_pool2d_with_indices", flops) &&
    add_flops("aten::avg_pool2d", flops);

[[maybe_unused]] const bool registered =
    add_operator_traits(
        {.op = "wide::max_pool",
         .pool_text = [](const Program& p, const Node& n) { return pool_text(p, n, false); }}) &&
    add_operator_traits(
        {.op = "wide::average_pool",
         .pool_text = [](const Program& p, const Node& n) { return pool_text(p, n, true); }});

constexpr const char* kNames[] = {"max_pool", "average_pool"};

/// The fields that a text holds, in its order.
std::array<int64_t*, 12> numbers_of(Pooling& p) {
  PoolWindow& w = p.window;
  PoolShape& s = p.shape;
  return {&w.kernel[0],   &w.kernel[1],   &w.stride[0], &w.stride[1], &w.padding[0], &w.padding[1],
          &w.dilation[0], &w.dilation[1], &s.h,         &s.w,         &s.oh,         &s.ow};
}

}  // namespace

PoolWindow window_of(const char* op, at::IntArrayRef kernel, at::IntArrayRef stride,
                     at::IntArrayRef padding, at::IntArrayRef dilation, bool average) {
  for (const auto& list : {kernel, stride, padding, dilation})
    TORCH_CHECK(list.size() == 2, "wide::", op, ": got ", list, ", expected two numbers");
  return {{kernel[0], kernel[1]},
          {stride[0], stride[1]},
          {padding[0], padding[1]},
          {dilation[0], dilation[1]},
          average};
}

std::vector<int64_t> PoolWindow::result_sizes(const Tensor& x, bool ceil) const {
  const auto along = [&](int axis) {
    return at::native::pooling_output_shape<int64_t>(x.size(2 + axis), kernel[axis], padding[axis],
                                                     stride[axis], dilation[axis], ceil);
  };
  return {x.size(0), x.size(1), along(0), along(1)};
}

Pooling Pooling::parse(const std::string& text) {
  Pooling made{};
  made.window.average = text.rfind(kNames[1], 0) == 0;
  const std::string name = kNames[made.window.average];
  const bool named = text.rfind(name, 0) == 0;
  const char* at = text.c_str() + (named ? name.size() : text.size());
  for (int64_t* number : numbers_of(made)) {
    char* end = nullptr;
    *number = std::strtoll(at, &end, 10);
    TORCH_CHECK(end != at, "wide::pool: got '", text, "', expected a pooling and its numbers");
    at = end;
  }
  return made;
}

std::string Pooling::text() const {
  Pooling copy = *this;
  std::string text = kNames[window.average];
  for (const int64_t* number : numbers_of(copy)) text += " " + std::to_string(*number);
  return text;
}

bool Pooling::squares() const {
  const auto all = [](const int64_t(&pair)[2], int64_t value) {
    return pair[0] == value && pair[1] == value;
  };
  return all(window.kernel, 2) && all(window.stride, 2) && all(window.padding, 0) &&
         all(window.dilation, 1) && 2 * shape.oh <= shape.h && 2 * shape.ow <= shape.w;
}

void Pooling::run(const float* x, int64_t planes, float* y) const {
  using namespace pooling;
  if (squares()) {
    for (int64_t k = 0; k < planes; ++k)
      HWY_DYNAMIC_DISPATCH(pool_squares)(x + k * plane(), shape, window, y + k * results());
    return;
  }
  // Windows of a result row lie in [0, pitch * stride) of the padded line, the last one too.
  const int64_t stride = window.stride[1], padding = window.padding[1];
  const int64_t reach = (window.kernel[1] - 1) * window.dilation[1] / stride;
  const int64_t pitch = std::max(shape.ow + reach + 1, (padding + shape.w + stride - 1) / stride);
  std::vector<float> line(static_cast<size_t>(pitch * stride),
                          window.average ? 0.0F : -std::numeric_limits<float>::infinity());
  std::vector<float> phases(line.size());
  std::vector<const float*> from(static_cast<size_t>(std::max(window.kernel[0], window.kernel[1])));
  for (int64_t k = 0; k < planes; ++k) HWY_DYNAMIC_DISPATCH(pool_plane)
  (x + k * plane(), shape, window, y + k * results(), line.data(), phases.data(), pitch,
   from.data());
}

Tensor max_pool(const Tensor& x, const PoolWindow& p, bool ceil) {
  return kernels::call(
      "max_pool", {x, list(p.kernel), list(p.stride), list(p.padding), list(p.dilation), ceil});
}

Tensor average_pool(const Tensor& x, const PoolWindow& p) {
  return kernels::call("average_pool", {x, list(p.kernel), list(p.stride), list(p.padding)});
}

}  // namespace wide
#endif
