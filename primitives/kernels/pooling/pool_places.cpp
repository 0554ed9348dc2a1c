#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>

#include "primitives/kernels/pooling/pool.h"
#include "primitives/kernels/registration.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/pooling/pool_places.cpp"
#include "primitives/kernels/highway.h"
#include "primitives/kernels/pooling/pool_phases.h"

HWY_BEFORE_NAMESPACE();
namespace wide::pool_places::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using pool_phases::HWY_NAMESPACE::along;

constexpr float kLeast = -std::numeric_limits<float>::infinity();

/// The greatest element so far and its index in the window.
template <class Tag>
struct Greatest {
  using Numbers = hn::RebindToSigned<Tag>;
  hn::Vec<Tag> value;
  hn::Vec<Numbers> number;

  HWY_INLINE void look(hn::Vec<Tag> other, int32_t its_number) {
    const auto greater = hn::Or(hn::Gt(other, value), hn::IsNaN(other));
    value = hn::IfThenElse(greater, other, value);
    number =
        hn::IfThenElse(hn::RebindMask(Numbers(), greater), hn::Set(Numbers(), its_number), number);
  }
  HWY_INLINE void store(Tag d, float* values, uint8_t* numbers) const {
    const hn::Rebind<uint8_t, Tag> bytes;
    hn::StoreU(value, d, values);
    hn::StoreU(hn::DemoteTo(bytes, number), bytes, numbers);
  }
};

/// Pools 2 x 2 windows of stride 2, none of which is cut off.
void squares(const float* x, const PoolShape& s, float* y, uint8_t* places) {
  for (int64_t i = 0; i < s.oh; ++i, x += 2 * s.w, y += s.ow, places += s.ow) {
    const float* below = x + s.w;
    along(s.ow, [&](auto d, int64_t at) {
      using Tag = decltype(d);
      hn::Vec<Tag> a, b, c, e;
      hn::LoadInterleaved2(d, x + 2 * at, a, b);
      hn::LoadInterleaved2(d, below + 2 * at, c, e);
      Greatest<Tag> greatest{a, hn::Zero(typename Greatest<Tag>::Numbers())};
      greatest.look(b, 1);
      greatest.look(c, 2);
      greatest.look(e, 3);
      greatest.store(d, y + at, places + at);
    });
  }
}

/// Pools one plane. Scratch: `lines` for kernel[0] lines of stride * pitch floats; `line`, one such
/// line, with kLeast at the padding; `first`, as long as `first_column`, which holds the index of
/// each window's first column inside the plane.
void plane(const float* x, const PoolShape& s, const PoolWindow& p, float* y, uint8_t* places,
           float* line, float* lines, int64_t pitch, const int32_t* first_column, int32_t* first) {
  const int64_t stride = p.stride[1], size = stride * pitch, columns = p.kernel[1];
  for (int64_t i = 0; i < s.oh; ++i, y += s.ow, places += s.ow) {
    const int64_t origin = i * p.stride[0] - p.padding[0];
    const int64_t begin = std::max<int64_t>(0, -origin);
    const int64_t end = std::min(p.kernel[0], s.h - origin);
    for (int64_t r = begin; r < end; ++r) {
      std::copy_n(x + (origin + r) * s.w, s.w, line + p.padding[1]);
      pool_phases::HWY_NAMESPACE::split(line, stride, pitch, lines + (r - begin) * size, pitch);
    }
    for (int64_t j = 0; j < s.ow; ++j)
      first[j] = first_column[j] + static_cast<int32_t>(begin * columns);
    along(s.ow, [&](auto d, int64_t at) {
      using Tag = decltype(d);
      Greatest<Tag> greatest{hn::Set(d, kLeast),
                             hn::LoadU(typename Greatest<Tag>::Numbers(), first + at)};
      for (int64_t r = begin; r < end; ++r)
        for (int64_t c = 0; c < columns; ++c) {
          const float* from = lines + (r - begin) * size + c % stride * pitch + c / stride;
          greatest.look(hn::LoadU(d, from + at), static_cast<int32_t>(r * columns + c));
        }
      greatest.store(d, y + at, places + at);
    });
  }
}

/// The gradient of 2 x 2 windows; zero for elements outside all windows.
void squares_backward(const float* g, const uint8_t* places, const PoolShape& s, float* to) {
  for (int64_t i = 0; i < s.oh; ++i, g += s.ow, places += s.ow, to += 2 * s.w) {
    float* below = to + s.w;
    along(s.ow, [&](auto d, int64_t at) {
      const hn::RebindToSigned<decltype(d)> numbers;
      const auto all = hn::LoadU(d, g + at);
      const auto number =
          hn::PromoteTo(numbers, hn::LoadU(hn::Rebind<uint8_t, decltype(d)>(), places + at));
      const auto part = [&](int32_t k) {
        return hn::IfThenElseZero(hn::RebindMask(d, hn::Eq(number, hn::Set(numbers, k))), all);
      };
      hn::StoreInterleaved2(part(0), part(1), d, to + 2 * at);
      hn::StoreInterleaved2(part(2), part(3), d, below + 2 * at);
    });
    for (float* row : {to, below}) std::fill(row + 2 * s.ow, row + s.w, 0.0F);
  }
  std::fill_n(to, (s.h - 2 * s.oh) * s.w, 0.0F);
}

/// The rows [r0, r1) and columns [c0, c1) of result (i, j)'s window that lie in the image.
struct InImage {
  int64_t row, column;  // of the window's first element, maybe in the padding
  int64_t r0, r1, c0, c1;

  InImage(const PoolShape& s, const PoolWindow& p, int64_t i, int64_t j)
      : row(i * p.stride[0] - p.padding[0]),
        column(j * p.stride[1] - p.padding[1]),
        r0(std::max<int64_t>(0, -row)),
        r1(std::min(p.kernel[0], s.h - row)),
        c0(std::max<int64_t>(0, -column)),
        c1(std::min(p.kernel[1], s.w - column)) {}
};

/// Computes row i of the results of an image with channels last.
void last_row(const float* x, const PoolShape& s, const PoolWindow& p, int64_t i, float* y,
              uint8_t* places) {
  for (int64_t j = 0; j < s.ow; ++j, y += s.channels, places += s.channels) {
    const InImage in(s, p, i, j);
    along(s.channels, [&](auto d, int64_t at) {
      using Tag = decltype(d);
      const auto first = static_cast<int32_t>(in.r0 * p.kernel[1] + in.c0);
      Greatest<Tag> greatest{hn::Set(d, kLeast), hn::Set(typename Greatest<Tag>::Numbers(), first)};
      for (int64_t r = in.r0; r < in.r1; ++r)
        for (int64_t c = in.c0; c < in.c1; ++c) {
          const float* from = x + ((in.row + r) * s.w + in.column + c) * s.channels;
          greatest.look(hn::LoadU(d, from + at), static_cast<int32_t>(r * p.kernel[1] + c));
        }
      greatest.store(d, y + at, places + at);
    });
  }
}

/// Calls `work(d, i)` for elements [i, i + lanes) until all `count` are done, each of them once.
template <class Work>
HWY_INLINE void once_along(int64_t count, const Work& work) {
  int64_t i = 0;
  const auto by = [&](auto d) {
    for (const auto lanes = static_cast<int64_t>(hn::Lanes(d)); i + lanes <= count; i += lanes)
      work(d, i);
  };
  by(hn::ScalableTag<float>());
  by(hn::CappedTag<float, 4>());
  by(hn::CappedTag<float, 1>());
}

/// The gradient of an image with channels last: each window adds its part, or writes it if windows
/// do not overlap.
void last_backward(const float* g, const uint8_t* places, const PoolShape& s, const PoolWindow& p,
                   float* to) {
  const bool apart = p.stride[0] >= p.kernel[0] && p.stride[1] >= p.kernel[1];
  std::fill_n(to, s.h * s.w * s.channels, 0.0F);
  for (int64_t i = 0; i < s.oh; ++i)
    for (int64_t j = 0; j < s.ow; ++j, g += s.channels, places += s.channels) {
      const InImage in(s, p, i, j);
      once_along(s.channels, [&](auto d, int64_t at) {
        const hn::RebindToSigned<decltype(d)> numbers;
        const auto all = hn::LoadU(d, g + at);
        const auto number =
            hn::PromoteTo(numbers, hn::LoadU(hn::Rebind<uint8_t, decltype(d)>(), places + at));
        for (int64_t r = in.r0; r < in.r1; ++r)
          for (int64_t c = in.c0; c < in.c1; ++c) {
            const auto its = hn::Set(numbers, static_cast<int32_t>(r * p.kernel[1] + c));
            const auto part = hn::IfThenElseZero(hn::RebindMask(d, hn::Eq(number, its)), all);
            float* one = to + ((in.row + r) * s.w + in.column + c) * s.channels + at;
            hn::StoreU(apart ? part : hn::Add(hn::LoadU(d, one), part), d, one);
          }
      });
    }
}

}  // namespace wide::pool_places::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace wide::pool_places {
namespace {
#if HWY_ONCE

HWY_EXPORT(squares);
HWY_EXPORT(plane);
HWY_EXPORT(squares_backward);
HWY_EXPORT(last_row);
HWY_EXPORT(last_backward);

using at::Tensor;

constexpr int64_t kMostElements = 255;  // indices are bytes

PoolWindow small_window(at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding) {
  const PoolWindow window = window_of("max_pool_places", kernel, stride, padding);
  TORCH_CHECK(kernel[0] * kernel[1] <= kMostElements, "wide::max_pool_places: got a window of ",
              kernel);
  return window;
}

void pool_planes(const float* x, int64_t planes, const Pooling& pooling, float* y,
                 uint8_t* places) {
  const PoolWindow& p = pooling.window;
  const PoolShape& s = pooling.shape;
  // Windows of a result row lie in [0, pitch * stride) of the padded line, the last one too.
  const int64_t stride = p.stride[1];
  const int64_t pitch =
      std::max(s.ow + (p.kernel[1] - 1) / stride + 1, (p.padding[1] + s.w + stride - 1) / stride);
  std::vector<float> line(static_cast<size_t>(pitch * stride),
                          -std::numeric_limits<float>::infinity());
  std::vector<float> lines(line.size() * static_cast<size_t>(p.kernel[0]));
  std::vector<int32_t> first_column, first(static_cast<size_t>(s.ow));
  for (int64_t j = 0; j < s.ow; ++j)
    first_column.push_back(static_cast<int32_t>(std::max<int64_t>(0, p.padding[1] - j * stride)));
  for (int64_t k = 0; k < planes; ++k) {
    const float* from = x + k * pooling.plane();
    float* to = y + k * pooling.results();
    uint8_t* numbers = places + k * pooling.results();
    if (pooling.squares()) {
      HWY_DYNAMIC_DISPATCH(squares)(from, s, to, numbers);
    } else {
      HWY_DYNAMIC_DISPATCH(plane)
      (from, s, p, to, numbers, line.data(), lines.data(), pitch, first_column.data(),
       first.data());
    }
  }
}

/// As in ATen, adds every result's gradient to one element, in the order of the results.
void plane_backward(const float* g, const uint8_t* places, const PoolShape& s, const PoolWindow& p,
                    const std::vector<int64_t>& away, float* to) {
  std::fill_n(to, s.h * s.w, 0.0F);
  for (int64_t i = 0; i < s.oh; ++i) {
    const int64_t row = (i * p.stride[0] - p.padding[0]) * s.w - p.padding[1];
    for (int64_t j = 0; j < s.ow; ++j) to[row + j * p.stride[1] + away[*places++]] += *g++;
  }
}

bool channels_last(const Tensor& t) {
  return !t.is_contiguous() && t.is_contiguous(at::MemoryFormat::ChannelsLast);
}

at::MemoryFormat format(bool channels_last) {
  return channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

/// How many rows, planes or images of this many elements a thread processes at a time.
int64_t a_time(int64_t elements) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, elements));
}

/// Max pooling of `[images, channels, H, W]` float32, and the index of the greatest element in its
/// window, counted row by row, as a byte. Both agree with ATen's max_pool2d_with_indices, NaN and
/// equal elements included. Results have the layout of x, contiguous or channels last. For windows
/// without dilation, of at most 255 elements.
std::tuple<Tensor&, Tensor&> max_pool_places_out(const Tensor& x, at::IntArrayRef kernel,
                                                 at::IntArrayRef stride, at::IntArrayRef padding,
                                                 bool ceil, Tensor& out, Tensor& places) {
  const PoolWindow p = small_window(kernel, stride, padding);
  TORCH_CHECK(x.dim() == 4 && out.dim() == 4 && out.sizes() == places.sizes(),
              "wide::max_pool_places: got x ", x.sizes(), " and out ", out.sizes());
  const PoolShape s{x.size(1), x.size(2), x.size(3), out.size(2), out.size(3)};
  TORCH_CHECK(out.sizes() == p.result_sizes(x, ceil) &&
                  out.is_contiguous(format(channels_last(x))) &&
                  places.is_contiguous(format(channels_last(x))),
              "wide::max_pool_places: out ", out.sizes(), " does not fit x ", x.sizes());
  const Tensor dense = channels_last(x) ? x : x.contiguous();
  const Pooling pooling{p, s};
  const float* px = dense.const_data_ptr<float>();
  float* py = out.mutable_data_ptr<float>();
  uint8_t* pp = places.mutable_data_ptr<uint8_t>();
  if (channels_last(x)) {
    const int64_t row = s.ow * s.channels;
    at::parallel_for(0, out.numel() ? x.size(0) * s.oh : 0, a_time(row),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t k = begin; k < end; ++k) HWY_DYNAMIC_DISPATCH(last_row)
                       (px + k / s.oh * s.channels * pooling.plane(), s, p, k % s.oh, py + k * row,
                        pp + k * row);
                     });
    return {out, places};
  }
  at::parallel_for(0, out.numel() ? x.size(0) * s.channels : 0, a_time(pooling.plane()),
                   [&](int64_t begin, int64_t end) {
                     const int64_t at = begin * pooling.results();
                     pool_planes(px + begin * pooling.plane(), end - begin, pooling, py + at,
                                 pp + at);
                   });
  return {out, places};
}

/// The gradient for x, of these sizes and this layout, from the result's gradient g; summed in
/// ATen's order.
Tensor& max_pool_backward_out(const Tensor& g, const Tensor& places, at::IntArrayRef sizes,
                              at::IntArrayRef kernel, at::IntArrayRef stride,
                              at::IntArrayRef padding, bool last, Tensor& out) {
  TORCH_CHECK(sizes.size() == 4 && out.sizes() == sizes && out.is_contiguous(format(last)) &&
                  g.dim() == 4 && places.sizes() == g.sizes() && g.size(0) == sizes[0] &&
                  g.size(1) == sizes[1],
              "wide::max_pool_backward: got g ", g.sizes(), " and places ", places.sizes(), " for ",
              sizes);
  const Pooling pooling{small_window(kernel, stride, padding),
                        {sizes[1], sizes[2], sizes[3], g.size(2), g.size(3)}};
  const PoolWindow& p = pooling.window;
  std::vector<int64_t> away;
  for (int64_t r = 0; r < p.kernel[0]; ++r)
    for (int64_t c = 0; c < p.kernel[1]; ++c) away.push_back(r * sizes[3] + c);
  const Tensor dense = g.contiguous(format(last)), numbers = places.contiguous(format(last));
  const float* pg = dense.const_data_ptr<float>();
  const uint8_t* pp = numbers.const_data_ptr<uint8_t>();
  float* to = out.mutable_data_ptr<float>();
  if (last) {
    const PoolShape& s = pooling.shape;
    at::parallel_for(0, out.numel() ? sizes[0] : 0, a_time(s.channels * pooling.plane()),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t k = begin; k < end; ++k) {
                         const int64_t at = k * s.channels * pooling.results();
                         HWY_DYNAMIC_DISPATCH(last_backward)
                         (pg + at, pp + at, s, p, to + k * s.channels * pooling.plane());
                       }
                     });
    return out;
  }
  at::parallel_for(0, out.numel() ? sizes[0] * sizes[1] : 0, a_time(pooling.plane()),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t k = begin; k < end; ++k) {
                       const int64_t at = k * pooling.results();
                       float* plane = to + k * pooling.plane();
                       if (pooling.squares()) {
                         HWY_DYNAMIC_DISPATCH(squares_backward)
                         (pg + at, pp + at, pooling.shape, plane);
                       } else {
                         plane_backward(pg + at, pp + at, pooling.shape, p, away, plane);
                       }
                     }
                   });
  return out;
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(
      m, "max_pool_places", "Tensor x, int[] kernel, int[] stride, int[] padding, bool ceil",
      [](const Tensor& x, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
         bool ceil) {
        const PoolWindow p = small_window(kernel, stride, padding);
        const Tensor out =
            at::empty(p.result_sizes(x, ceil), x.options(), format(channels_last(x)));
        return std::tuple(out, at::empty_like(out, x.options().dtype(at::kByte)));
      },
      max_pool_places_out, {.results = {"out", "places"}});
  kernels::add_filled_operator(
      m, "max_pool_backward",
      "Tensor g, Tensor places, int[] sizes, int[] kernel, int[] stride, int[] "
      "padding, bool channels_last",
      [](const Tensor& g, const Tensor&, at::IntArrayRef sizes, at::IntArrayRef, at::IntArrayRef,
         at::IntArrayRef, bool last) { return at::empty(sizes, g.options(), format(last)); },
      max_pool_backward_out, {.others = {at::kByte}});
}

#endif
}  // namespace
}  // namespace wide::pool_places
