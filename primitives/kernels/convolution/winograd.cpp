#include "primitives/kernels/convolution/winograd.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/lower/plan/operator_traits.h"
#include "engine/measure/roofline.h"
#include "primitives/kernels/convolution/winograd_products.h"
#include "primitives/kernels/convolution/winograd_transforms.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/pointwise/epilogue.h"
#include "primitives/kernels/registration.h"
#include "primitives/kernels/thread_memory.h"

// Results are made in tiles, each from a patch of inputs. Patches and filters are brought into a
// basis of "frequencies", in which a convolution is one product per channel; the sums over channels
// are matrix products (winograd_products.h).

namespace wide {
namespace {

using at::Tensor;
using winograd::Basis;
using winograd::kChunk;
using winograd::kFilters;
using winograd::kLanes;
using winograd::kPositions;
using winograd::kRuns;
using winograd::kSums;
using winograd::Squares;

constexpr int64_t kAhead = 3;  // channels between the one copied and the one prefetched

// -------------------------------------------------------------------------------- one call

/// Neighbouring tiles in one row of tiles.
struct Span {
  int64_t x = 0, count = 0;  // first tile, number of tiles
  int64_t image = 0, y = 0;  // image and first row of results
  int64_t at = 0;            // index of the first tile in the chunk
  int64_t first_row = 0;     // among the padded rows of the chunk
  int64_t columns = 0;       // results in a row
  int64_t rows = 0;          // rows of results
};

/// Values that all models of a call share.
struct Work {
  Basis basis;
  int64_t batch = 0, channels = 0, filters = 0, height = 0, width = 0;
  int64_t pad_y = 0, pad_x = 0, out_height = 0, out_width = 0;
  int64_t tiles_y = 0, tiles_x = 0;
  int64_t stride_b = 0, stride_c = 0, stride_y = 0, stride_x = 0;  // of x
  bool relu = false;

  int64_t tiles() const { return batch * tiles_y * tiles_x; }
  int64_t row_pitch() const { return basis.results * tiles_x + 8; }  // columns are read by four
  /// Distance of frequencies: not a multiple of a page, as these share few cache lines.
  int64_t plane() const { return channels * kChunk + kPositions; }
};

/// A rectangle of results: whole rows of tiles, or a single span.
struct Area {
  int64_t image = 0, y = 0, x = 0;  // of the first result
  int64_t rows = 0, columns = 0;
};

/// A row of inputs that the chunk's patches read: its offsets in a channel and in the padded rows.
struct Row {
  int64_t from = 0, to = 0;
};

/// Some tiles of a model: up to kChunk, in the order of images, rows and columns.
struct Chunk {
  int64_t count = 0, runs = 0;  // tiles; runs of 16 tiles
  int64_t row_count = 0;        // number of padded rows
  std::vector<Row> rows;        // rows that lie inside the image
  std::vector<Span> spans;
  std::vector<int64_t> starts;  // offset of each tile's patch in the padded rows
  std::vector<Area> areas;      // the same results as rectangles, in order

  Chunk(const Work& w, int64_t begin, int64_t tiles)
      : count(tiles), runs((tiles + kPositions - 1) / kPositions) {
    int64_t last_image = -1;
    for (int64_t at = 0; at < tiles;) {
      const int64_t tile = begin + at, across = tile / w.tiles_x;
      const int64_t image = across / w.tiles_y, y = across % w.tiles_y;
      Span span;
      span.x = tile % w.tiles_x;
      span.count = std::min(w.tiles_x - span.x, tiles - at);
      span.at = at;
      const int64_t step = w.basis.results, first = step * span.x;
      span.image = image;
      span.y = step * y;
      span.columns = std::min(w.out_width - first, step * span.count);
      span.rows = std::min(w.out_height - step * y, step);
      // Patches overlap: the last padded rows of the tiles above are the first ones here.
      const int64_t known = image == last_image ? w.basis.patch() - step : 0;
      span.first_row = row_count - known;
      for (int64_t r = known; r < w.basis.patch(); ++r, ++row_count) {
        const int64_t in = step * y + r - w.pad_y;
        if (in >= 0 && in < w.height)
          rows.push_back(
              {image * w.stride_b + in * w.stride_y, row_count * w.row_pitch() + w.pad_x});
      }
      if (span.columns == w.out_width && image == last_image && areas.back().x == 0 &&
          areas.back().columns == w.out_width)
        areas.back().rows += span.rows;
      else
        areas.push_back({image, step * y, first, span.rows, span.columns});
      for (int64_t i = 0; i < span.count; ++i)
        starts.push_back(span.first_row * w.row_pitch() + first + step * i);
      last_image = image;
      at += span.count;
      spans.push_back(span);
    }
    starts.resize(starts.size() + kLanes, starts.back());
  }
};

std::vector<Chunk> cut(const Work& work) {
  std::vector<Chunk> chunks;
  for (int64_t begin = 0; begin < work.tiles();) {
    const int64_t runs = (work.tiles() - begin + kPositions - 1) / kPositions;
    const int64_t most = (runs == 4 ? 2 : kRuns) * kPositions;  // a single run is slow
    const int64_t count = std::min(work.tiles() - begin, most);
    chunks.emplace_back(work, begin, count);
    begin += count;
  }
  return chunks;
}

/// Copies a short row without a call of memcpy.
void copy_row(const float* from, int64_t stride, int64_t count, float* to) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i + 8 <= count; i += 8) std::memcpy(to + i, from + i, 8 * sizeof(float));
    for (; i + 4 <= count; i += 4) std::memcpy(to + i, from + i, 4 * sizeof(float));
  }
  for (; i < count; ++i) to[i] = from[i * stride];
}

/// The frequencies of all patches of a chunk, `[frequencies, C, kChunk]`. `rows` has buffers for
/// two channels, used in turn: reading rows just written would stall.
void fill_patches(const Work& w, const Chunk& chunk, const float* x, float* rows, float* patches) {
  const int64_t floats = chunk.row_count * w.row_pitch();
  std::fill(rows, rows + 2 * floats, 0.0F);
  const int64_t step = w.basis.results;
  const int64_t inside = std::min(w.width, step * (w.tiles_x - 1) + w.basis.patch() - w.pad_x);
  const auto fill = [&](int64_t c) {
    for (const Row& row : chunk.rows) {
      const float* from = x + row.from + c * w.stride_c;
      copy_row(from, w.stride_x, inside, rows + c % 2 * floats + row.to);
      __builtin_prefetch(from + kAhead * w.stride_c);
      __builtin_prefetch(from + kAhead * w.stride_c + kPositions);
    }
  };
  fill(0);
  for (int64_t c = 0; c < w.channels; ++c) {
    if (c + 1 < w.channels) fill(c + 1);
    winograd::transform_patches(w.basis, rows + c % 2 * floats, w.row_pitch(), chunk.starts.data(),
                                chunk.count, patches + c * kChunk, w.plane());
  }
}

/// A model's epilogue, its results, and the index of its first result among all models'.
struct Results {
  const KernelEpilogue& epilogue;
  float* out;
  int64_t first;
};

/// The pooling of a call's results, if there is one.
struct Pooled {
  bool any = false;
  Squares squares = Squares::kept;  // pooled in registers if nothing comes before the pooling
  int64_t height = 0, width = 0;

  Pooled(const Work& w, const KernelEpilogue& epilogue)
      : any(epilogue.pool().has_value()),
        height(any ? w.out_height / 2 : w.out_height),
        width(any ? w.out_width / 2 : w.out_width) {
    if (any && !epilogue.before_pool())
      squares = epilogue.pool()->window.average ? Squares::mean : Squares::greatest;
  }
  /// Whether results go to a buffer first, to be pooled from there.
  bool apart() const { return any && squares == Squares::kept; }
  /// Where result (y, x) of a plane, or what it is pooled to, is stored.
  int64_t place(int64_t plane, int64_t y, int64_t x) const {
    const int64_t step = any ? 2 : 1;
    return (plane * height + y / step) * width + x / step;
  }
};

/// Runs the epilogue and pooling on one filter's results of a chunk: in place, or, if
/// `pooled.apart()`, from `made`, where they lie area after area.
void finish_areas(const Work& w, const Chunk& chunk, const Pooled& pooled, int64_t filter,
                  float* made, const Results& results) {
  const KernelEpilogue& epilogue = results.epilogue;
  for (const Area& a : chunk.areas) {
    const int64_t plane = a.image * w.filters + filter;
    const int64_t first = (plane * w.out_height + a.y) * w.out_width + a.x;
    const int64_t pitch = pooled.apart() ? a.columns : w.out_width;
    if (epilogue.before_pool()) {
      float* at = pooled.apart() ? made : results.out + first;
      const bool joined = a.columns == w.out_width;
      for (int64_t r = 0; r < a.rows; r += joined ? a.rows : 1)
        epilogue.run_before_pool(at + r * pitch, results.first + first + r * w.out_width,
                                 joined ? a.rows * a.columns : a.columns);
    }
    const float* own = made;
    made += a.rows * a.columns;
    const int64_t rows = a.rows / 2, columns = a.columns / 2;
    if (!pooled.any || rows * columns == 0) continue;
    float* to = results.out + pooled.place(plane, a.y, a.x);
    const bool joined = columns == pooled.width;
    const int64_t at_once = joined ? rows : 1;
    const Pooling some{epilogue.pool()->window, {1, 2 * at_once, a.columns, at_once, columns}};
    for (int64_t r = 0; r < rows; r += at_once, to += pooled.width) {
      if (pooled.apart()) some.run(own + 2 * r * a.columns, 1, to);
      epilogue.run_behind_pool(to, at_once * columns);
    }
  }
}

/// Computes the results of a chunk for all filters of a model.
void compute(const Work& w, const Chunk& chunk, const float* patches, const float* filters,
             const float* bias, float* sums, const Results& results) {
  const Pooled pooled(w, results.epilogue);
  alignas(64) float areas[kChunk * winograd::kMostResults * winograd::kMostResults];
  winograd::Strip strips[kChunk];
  int64_t made = 0;
  for (size_t i = 0; i < chunk.spans.size(); ++i) {
    const Span& s = chunk.spans[i];
    const int64_t place = pooled.place(s.image * w.filters, s.y, s.x * w.basis.results);
    const int64_t pitch = pooled.apart() ? s.columns : pooled.width;
    strips[i] = {s.at, s.count, pooled.apart() ? made : place, pitch, s.columns, s.rows};
    made += s.rows * s.columns;
  }
  for (int64_t first = 0; first < w.filters; first += kFilters) {
    const int64_t frequencies = w.basis.frequencies();
    const int64_t rows = std::min(w.filters - first, kFilters);
    float* planes = results.out + first * pooled.height * pooled.width;
    const auto plane = [&](int64_t o) { return planes + o * pooled.height * pooled.width; };
    // Prefetches the results' memory while sums are computed.
    for (int64_t o = 0; !pooled.any && o < rows; ++o)
      for (size_t s = 0; s < chunk.spans.size(); ++s)
        for (int64_t r = 0; r < strips[s].rows; ++r)
          for (int64_t i = 0; i < strips[s].columns; i += kPositions)
            __builtin_prefetch(plane(o) + strips[s].to + r * strips[s].pitch + i, 1);
    winograd::multiply({filters + first * frequencies * w.channels, patches, w.plane(), frequencies,
                        w.channels, rows, chunk.runs, sums});
    for (int64_t o = 0; o < rows; ++o) {
      winograd::transform_results(
          w.basis, {sums + o * kChunk, kSums, chunk.count, bias == nullptr ? 0.0F : bias[first + o],
                    w.relu, pooled.squares, pooled.apart() ? areas : plane(o), strips});
      if (results.epilogue.exists()) finish_areas(w, chunk, pooled, first + o, areas, results);
    }
  }
}

// --------------------------------------------------------------------------------- operator

Work make_work(const Tensor& x, int64_t out_channels, at::IntArrayRef padding, const Basis& basis,
               bool relu) {
  TORCH_CHECK(basis.exists(), "wide::winograd_convolution: there is no F(", basis.results, ", ",
              basis.kernel, ")");
  TORCH_CHECK(x.dim() == 5 && padding.size() == 2 && padding[0] >= 0 && padding[1] >= 0 &&
                  x.size(3) + 2 * padding[0] >= basis.kernel &&
                  x.size(4) + 2 * padding[1] >= basis.kernel,
              "wide::winograd_convolution: x ", x.sizes(), " and padding ", padding,
              " do not fit a kernel of ", basis.kernel, " x ", basis.kernel);
  Work w;
  w.basis = basis;
  w.batch = x.size(1);
  w.channels = x.size(2);
  w.filters = out_channels;
  w.height = x.size(3);
  w.width = x.size(4);
  w.pad_y = padding[0];
  w.pad_x = padding[1];
  w.out_height = w.height + 2 * w.pad_y - basis.kernel + 1;
  w.out_width = w.width + 2 * w.pad_x - basis.kernel + 1;
  w.tiles_y = (w.out_height + basis.results - 1) / basis.results;
  w.tiles_x = (w.out_width + basis.results - 1) / basis.results;
  w.stride_b = x.stride(1);
  w.stride_c = x.stride(2);
  w.stride_y = x.stride(3);
  w.stride_x = x.stride(4);
  w.relu = relu;
  return w;
}

Tensor& winograd_out(const Tensor& x, const Tensor& filters, const std::optional<Tensor>& bias,
                     int64_t out_channels, at::IntArrayRef padding, int64_t kernel, int64_t tile,
                     const std::optional<Tensor>& residual, c10::string_view activation,
                     c10::string_view pool, Tensor& out) {
  const KernelEpilogue epilogue(activation, residual, out, pool);
  const Work w = make_work(x, out_channels, padding, {kernel, tile}, epilogue.relu());
  const int64_t n = x.size(0);
  const int64_t blocks = (out_channels + kFilters - 1) / kFilters;
  const int64_t frequencies = w.basis.frequencies();
  const int64_t each = blocks * frequencies * w.channels * kFilters;
  const int64_t results = w.batch * out_channels * w.out_height * w.out_width;
  TORCH_CHECK(filters.is_contiguous() && filters.numel() == n * each,
              "wide::winograd_convolution: filters ", filters.sizes(), " do not fit x ", x.sizes());
  TORCH_CHECK(out.is_contiguous() && epilogue.results() == n * results,
              "wide::winograd_convolution: out ", out.sizes(),
              " is not a contiguous [N, B, O, ...]");
  const Tensor offsets = bias ? bias->contiguous() : Tensor();
  const float *px = x.const_data_ptr<float>(), *pf = filters.const_data_ptr<float>();
  const float* pb = offsets.defined() ? offsets.const_data_ptr<float>() : nullptr;
  float* po = out.mutable_data_ptr<float>();
  const std::vector<Chunk> chunks = cut(w);
  int64_t rows = 0;
  for (const Chunk& chunk : chunks) rows = std::max(rows, chunk.row_count);
  const auto count = static_cast<int64_t>(chunks.size());
  at::parallel_for(0, n * count, 1, [&](int64_t begin, int64_t end) {
    const int64_t patches = frequencies * w.plane();
    const int64_t sums = frequencies * kSums;
    float* memory = kernels::thread_memory<Work>(patches + sums + 2 * rows * w.row_pitch());
    for (int64_t job = begin; job < end; ++job) {
      const int64_t i = job / count;
      const Chunk& chunk = chunks[static_cast<size_t>(job % count)];
      fill_patches(w, chunk, px + i * x.stride(0), memory + patches + sums, memory);
      compute(w, chunk, memory, pf + i * each, pb == nullptr ? nullptr : pb + i * out_channels,
              memory + patches, {epilogue, po + i * (out.numel() / n), i * results});
    }
  });
  return out;
}

/// Whether the pooling is over 2 x 2 squares, which lie inside tiles.
bool pools_squares(const std::string& pool_text, const Value& result) {
  const PoolShape shape = Pooling::parse(pool_text).shape;
  return result.contiguous() && Pooling::parse(pool_text).squares() && shape.h == result.sizes[3] &&
         shape.w == result.sizes[4] && shape.oh == shape.h / 2 && shape.ow == shape.w / 2;
}

/// Sizes of a node's call, for counting.
struct Counted {
  double models, batch, channels, filters;
  int64_t out_height, out_width;
  Basis basis;

  Counted(const Program& program, const Node& node) {
    const Sizes& x = program.value(node.arguments[0].values[0]).sizes;
    const auto number = [&](size_t a) { return node.arguments[a].constant.toInt(); };
    const std::vector<int64_t> padding = node.arguments[4].constant.toIntVector();
    basis = {number(5), number(6)};
    models = double(x[0]);
    batch = double(x[1]);
    channels = double(x[2]);
    filters = double(number(3));
    out_height = x[3] + 2 * padding[0] - basis.kernel + 1;
    out_width = x[4] + 2 * padding[1] - basis.kernel + 1;
  }
};

double flops(const Program& program, const Node& node) {
  const Counted c(program, node);
  return 2 * c.models * c.batch * c.filters * double(c.out_height * c.out_width) * c.channels *
         double(c.basis.kernel * c.basis.kernel);
}

/// The products of patches and filters, counting whole runs of tiles and half blocks of filters,
/// but not the transforms.
double computed_flops(const Program& program, const Node& node) {
  const Counted c(program, node);
  const int64_t step = c.basis.results;
  const int64_t tiles =
      int64_t(c.batch) * ((c.out_height + step - 1) / step) * ((c.out_width + step - 1) / step);
  const int64_t runs = (tiles + kPositions - 1) / kPositions;  // as in `cut`
  const double filters = kFilters / 2 * std::ceil(2 * c.filters / kFilters);
  return 2 * c.models * double(runs * kPositions) * c.channels * filters *
         double(c.basis.frequencies());
}

[[maybe_unused]] const bool registered =
    add_operator_traits({.op = "wide::winograd_convolution",
                         .absorbs = activations::names(),
                         .adds = true,
                         .pools = pools_squares}) &&
    add_flops("wide::winograd_convolution", flops, computed_flops);

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(
      m, "winograd_convolution",
      "Tensor x, Tensor filters, Tensor? bias, int out_channels, int[] padding, "
      "int kernel, int tile, Tensor? residual, str activation, str pool",
      [](const Tensor& x, const Tensor&, const std::optional<Tensor>&, int64_t out_channels,
         at::IntArrayRef padding, int64_t kernel, int64_t tile, const auto&...) {
        const Work w = make_work(x, out_channels, padding, {kernel, tile}, false);
        return at::empty({x.size(0), w.batch, out_channels, w.out_height, w.out_width},
                         x.options().memory_format(at::MemoryFormat::Contiguous));
      },
      winograd_out);
}

/// Transforms taps to frequencies along one axis: G g.
Tensor lift(const Tensor& taps, int64_t axis, const Basis& basis) {
  const auto tap = [&](int64_t k) { return taps.select(axis, k); };
  const int64_t last = basis.kernel - 1;
  Tensors made{tap(0)};
  // scale * g(point) and scale * g(-point)
  const auto at_points = [&](double point, double scale) {
    Tensor even = tap(0) * scale, odd = tap(1) * (scale * point);
    for (int64_t k = 2; k <= last; ++k) {
      Tensor& sum = k % 2 == 0 ? even : odd;
      sum = sum + tap(k) * (scale * std::pow(point, double(k)));
    }
    made.insert(made.end(), {even + odd, even - odd});
  };
  if (basis.patch() == 4) {
    at_points(1, 0.5);
  } else if (basis.patch() == 8) {
    at_points(1, -2.0 / 9);
    at_points(2, 1.0 / 90);
    at_points(0.5, 32.0 / 45);
  } else {
    using winograd::kPoint;
    at_points(kPoint, -2.0 / 3);
    at_points(1 / kPoint, 1.0 / 6);
  }
  made.push_back(tap(last));
  return at::stack(made, axis);
}

}  // namespace

Tensor winograd_convolution(const Tensor& x, const Tensor& weight,
                            const std::optional<Tensor>& bias, const std::vector<int64_t>& padding,
                            int64_t tile) {
  return kernels::call("winograd_convolution",
                       {x, winograd_filters(weight, tile), bias, weight.size(1), padding,
                        weight.size(-1), tile, c10::IValue(), "none", "none"});
}

Tensor winograd_filters(const Tensor& weight, int64_t tile) {
  const Basis basis{weight.size(-1), tile};
  const int64_t n = weight.size(0), filters = weight.size(1), channels = weight.size(2);
  const int64_t blocks = (filters + kFilters - 1) / kFilters, missing = blocks * kFilters - filters;
  const Tensor lifted = lift(lift(weight, 3, basis), 4, basis);
  const Tensor full =
      missing == 0 ? lifted : at::constant_pad_nd(lifted, {0, 0, 0, 0, 0, 0, 0, missing});
  return full.reshape({n, blocks, kFilters, channels, basis.frequencies()})
      .permute({0, 1, 4, 3, 2})
      .contiguous();
}

}  // namespace wide
