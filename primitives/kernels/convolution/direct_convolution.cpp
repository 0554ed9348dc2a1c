#include "primitives/kernels/convolution/direct_convolution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/lower/plan/operator_traits.h"
#include "engine/measure/roofline.h"
#include "primitives/kernels/convolution/convolution_spots.h"
#include "primitives/kernels/convolution/convolution_tile.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/pointwise/epilogue.h"
#include "primitives/kernels/registration.h"
#include "primitives/kernels/zeroed_memory.h"

namespace wide {

namespace {

using at::Tensor;
using convolution_tile::Inside;
using convolution_tile::kFilters;
using convolution_tile::kPositions;
using convolution_tile::kRuns;
using convolution_tile::Tap;
using convolution_tile::Tile;

/// Images with a larger padded copy are read in place, as it would not fit the second-level cache.
constexpr int64_t kCopyFloats = 64 * 1024;
constexpr size_t kMaxPhases = 4;  // of the last axis: the largest stride of a transposed one
using Four = float __attribute__((vector_size(16)));

// --------------------------------------------------------------------------- along one axis

/// Results start, start + out_step, ... of one axis and the taps that reach them. Result j of the
/// phase reads input j * in_step + offset of each tap.
struct AxisPhase {
  int64_t start = 0, count = 0;
  std::vector<std::pair<int64_t, int64_t>> taps;  // index in the kernel, offset
};

/// An ordinary convolution has one phase; a transposed one as many as its stride, each an ordinary
/// convolution with a part of the taps whose results lie `out_step` apart.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1;
  int64_t in_step = 1, out_step = 1;
  std::vector<AxisPhase> phases;
  int64_t low = 0, extent = 1;  // inputs low .. low + extent - 1 are read; zero if outside
};

Axis make_axis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding,
               int64_t dilation, bool transposed) {
  Axis axis{in, out, kernel, transposed ? 1 : stride, transposed ? stride : 1, {}, 0, 1};
  int64_t low = 0, high = 0;
  bool any = false;
  for (int64_t start = 0; start < std::min(axis.out_step, out); ++start) {
    AxisPhase phase{start, (out - start + axis.out_step - 1) / axis.out_step, {}};
    for (int64_t t = 0; t < kernel; ++t) {
      int64_t offset = t * dilation - padding;
      if (transposed) {
        const int64_t from = start + padding - t * dilation;
        if (from % stride != 0) continue;
        offset = from / stride;
      }
      const int64_t last = (phase.count - 1) * axis.in_step + offset;
      low = any ? std::min(low, offset) : offset;
      high = any ? std::max(high, last) : last;
      any = true;
      phase.taps.emplace_back(t, offset);
    }
    axis.phases.push_back(std::move(phase));
  }
  axis.low = low;
  axis.extent = high - low + 1;
  return axis;
}

// ------------------------------------------------------------------------------ one image

using Axes = std::array<Axis, 3>;  // missing leading axes have size 1

/// An image of one model and group, padded: `[depth][height][channel][residue][column]`, columns
/// sorted by their residue modulo the stride, so that runs are contiguous.
struct Scratch {
  int64_t columns = 0;        // per residue
  int64_t channel_pitch = 0;  // floats
  int64_t row_pitch = 0;
  int64_t floats = 0;
  std::vector<std::array<int64_t, 2>> inside;  // by residue: range of columns inside the image

  Scratch(const Axes& axes, int64_t channels) {
    const Axis& width = axes[2];
    columns = (width.extent + width.in_step - 1) / width.in_step;
    channel_pitch = columns * width.in_step;
    row_pitch = channel_pitch * channels;
    floats = row_pitch * axes[0].extent * axes[1].extent + kPositions;  // runs read past the end
    for (int64_t r = 0; r < width.in_step; ++r) {
      const auto up_to = [&](int64_t column) {
        const int64_t missing = column - (width.low + r);
        return std::clamp<int64_t>((missing + width.in_step - 1) / width.in_step, 0, columns);
      };
      const int64_t begin = up_to(0);
      inside.push_back({begin, std::max(begin, up_to(width.in))});
    }
  }
};

struct Image {
  const float* data = nullptr;
  int64_t channels = 0, channel_stride = 0;
  std::array<int64_t, 3> strides{};
};

/// Copies an image in the order of its memory, for the prefetcher. Its padding is zero already.
void fill(const Axes& axes, const Scratch& scratch, const Image& image, float* to) {
  const int64_t step = axes[2].in_step, stride = image.strides[2] * step;
  const int64_t first_d = std::max<int64_t>(axes[0].low, 0),
                first_h = std::max<int64_t>(axes[1].low, 0);
  const int64_t past_d = std::min(axes[0].low + axes[0].extent, axes[0].in),
                past_h = std::min(axes[1].low + axes[1].extent, axes[1].in);
  for (int64_t c = 0; c < image.channels; ++c)
    for (int64_t d = first_d; d < past_d; ++d)
      for (int64_t h = first_h; h < past_h; ++h) {
        float* row = to + c * scratch.channel_pitch +
                     ((d - axes[0].low) * axes[1].extent + h - axes[1].low) * scratch.row_pitch;
        const float* from =
            image.data + c * image.channel_stride + d * image.strides[0] + h * image.strides[1];
        for (int64_t r = 0; r < step; ++r, row += scratch.columns) {
          const float* first = from + (axes[2].low + r) * image.strides[2];
          auto [i, end] = scratch.inside[static_cast<size_t>(r)];
          if (stride == 1) {  // short rows: avoids a call of memcpy each
            for (; i + kPositions <= end; i += kPositions)
              std::memcpy(row + i, first + i, kPositions * sizeof(float));
            for (; i + 4 <= end; i += 4) std::memcpy(row + i, first + i, 4 * sizeof(float));
          }
          for (; i < end; ++i) row[i] = first[i * stride];
        }
      }
}

// --------------------------------------------------------------------------- its results

/// The taps of one phase per axis, and each tap's offsets along the three axes.
struct Taps {
  std::vector<Tap> taps;
  std::vector<std::array<int64_t, 3>> offsets;
};

/// Values that all images of a call share. A row of results has one list of taps for each phase of
/// the last axis, whose results are interleaved.
struct Work {
  Axes axes;
  Scratch scratch;
  int64_t channels = 0, filters = 0;  // of a group
  bool relu = false;
  bool in_place = false;             // false: reads the padded copy
  int64_t channel_pitch = 0;         // of the memory that taps read
  std::array<int64_t, 2> pitches{};  // between planes, between rows
  struct Rows {
    const AxisPhase *depth, *height;
    std::vector<Taps> phases;  // of the last axis
  };
  std::vector<Rows> rows;
  std::optional<convolution_spots::Layer> spots;  // if that is faster

  Work(Axes all, int64_t in, int64_t out, bool with_relu, const Image& image)
      : axes(std::move(all)), scratch(axes, in), channels(in), filters(out), relu(with_relu) {
    in_place = convolution_tile::reads_inside() && axes[2].in_step == 1 && image.strides[2] == 1 &&
               scratch.floats > kCopyFloats;
    channel_pitch = in_place ? image.channel_stride : scratch.channel_pitch;
    pitches = in_place ? std::array{image.strides[0], image.strides[1]}
                       : std::array{axes[1].extent * scratch.row_pitch, scratch.row_pitch};
    for (const AxisPhase& depth : axes[0].phases)
      for (const AxisPhase& height : axes[1].phases) {
        Rows next{&depth, &height, {}};
        for (const AxisPhase& width : axes[2].phases)
          next.phases.push_back(join({&depth, &height, &width}));
        rows.push_back(std::move(next));
      }
    const int64_t lines = axes[0].out * axes[1].out;
    if (!in_place && rows.size() == 1 && rows[0].phases.size() == 1 &&
        convolution_spots::worth_it(positions(), filters, channels,
                                    lines * ((axes[2].out + kPositions - 1) / kPositions)))
      spots = by_spots();
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
  int64_t positions() const { return axes[0].out * axes[1].out * axes[2].out; }

 private:
  Taps join(const std::array<const AxisPhase*, 3>& phase) const {
    Taps joined;
    for (const auto& [td, od] : phase[0]->taps)
      for (const auto& [th, oh] : phase[1]->taps)
        for (const auto& [tw, ow] : phase[2]->taps) {
          const int64_t tap = (td * axes[1].kernel + th) * axes[2].kernel + tw;
          int64_t input = od * pitches[0] + oh * pitches[1] + ow;
          if (!in_place) {  // relative to the first input read; columns by residue
            const int64_t x = ow - axes[2].low, step = axes[2].in_step;
            input = (od - axes[0].low) * pitches[0] + (oh - axes[1].low) * pitches[1] +
                    x % step * scratch.columns + x / step;
          }
          joined.taps.push_back({input, tap * channels * kFilters});
          joined.offsets.push_back({od, oh, ow});
        }
    return joined;
  }

  convolution_spots::Layer by_spots() const {
    const std::vector<Tap>& taps = rows[0].phases[0].taps;
    convolution_spots::Layer layer{
        taps.data(), static_cast<int64_t>(taps.size()), channels, channel_pitch, filters, relu, {}};
    for (int64_t z = 0; z < axes[0].out; ++z)
      for (int64_t y = 0; y < axes[1].out; ++y)
        for (int64_t x = 0; x < axes[2].out; ++x)
          layer.offsets.push_back(z * axes[0].in_step * pitches[0] +
                                  y * axes[1].in_step * pitches[1] + x);
    return layer;
  }
};

/// Up to kRuns runs of results, of the same or of neighbouring rows.
struct Runs {
  int count = 0;
  std::array<const float*, kRuns> input{};
  std::array<float*, kRuns> out{};                   // of result 0 of the run's first phase
  std::array<int64_t, kRuns> column{};               // of the run within its phase
  std::array<std::array<int64_t, 2>, kRuns> from{};  // plane and row that offset 0 reads
};

/// One bit for each position of a run: whether column + offset lies in [0, size).
uint16_t inside_columns(int64_t column, int64_t offset, int64_t size) {
  const int64_t first = std::clamp<int64_t>(-(column + offset), 0, kPositions);
  const int64_t last = std::clamp<int64_t>(size - (column + offset), first, kPositions);
  return static_cast<uint16_t>(((1U << last) - 1U) & ~((1U << first) - 1U));
}

/// Finds, for every tap of every phase, which positions of these runs lie inside the image.
void find_inside(const Work& work, const Work::Rows& rows, const Runs& runs,
                 std::vector<Inside>& inside) {
  inside.clear();
  for (const Taps& phase : rows.phases)
    for (const auto& [od, oh, ow] : phase.offsets) {
      Inside tap{};
      for (size_t r = 0; r < static_cast<size_t>(runs.count); ++r) {
        const int64_t d = runs.from[r][0] + od, h = runs.from[r][1] + oh;
        if (d >= 0 && d < work.axes[0].in && h >= 0 && h < work.axes[1].in)
          tap[r] = inside_columns(runs.column[r], ow, work.axes[2].in);
      }
      inside.push_back(tap);
    }
}

/// Interleaves one filter's results of a run, stored phase after phase, into the result.
void interleave(const float* parts, int64_t part_pitch, size_t phases, int64_t count, float* to) {
  if (phases == 2 && count == 2 * kPositions) {
    for (int i = 0; i < kPositions; i += 4) {
      Four even, odd;
      std::memcpy(&even, parts + i, sizeof even);
      std::memcpy(&odd, parts + part_pitch + i, sizeof odd);
      const Four low = __builtin_shufflevector(even, odd, 0, 4, 1, 5);
      const Four high = __builtin_shufflevector(even, odd, 2, 6, 3, 7);
      std::memcpy(to + 2 * i, &low, sizeof low);
      std::memcpy(to + 2 * i + 4, &high, sizeof high);
    }
    return;
  }
  const auto step = static_cast<int64_t>(phases);
  for (int64_t p = 0; p < step; ++p)
    for (int64_t i = p; i < count; i += step) to[i] = parts[p * part_pitch + i / step];
}

/// Computes a block of filters at some runs.
void compute_block(const Work& work, const Work::Rows& rows, const Runs& runs, Tile& tile,
                   int64_t first_filter) {
  const Axis& width = work.axes[2];
  const int64_t positions = work.positions();
  const size_t phases = width.phases.size();
  if (phases == 1) {
    tile.taps = rows.phases[0].taps.data();
    tile.tap_count = static_cast<int64_t>(rows.phases[0].taps.size());
    tile.pitch = positions;
    for (int r = 0; r < runs.count; ++r) {
      const auto k = static_cast<size_t>(r);
      tile.count[r] =
          static_cast<int>(std::min<int64_t>(width.phases[0].count - runs.column[k], kPositions));
      tile.input[r] = runs.input[k];
      tile.out[r] = runs.out[k] + first_filter * positions;
    }
    convolution_tile::compute(tile, runs.count);
    return;
  }
  alignas(64) float parts[kMaxPhases][kRuns][kFilters][kPositions];
  tile.pitch = kPositions;
  for (size_t p = 0; p < phases; ++p) {
    tile.taps = rows.phases[p].taps.data();
    tile.tap_count = static_cast<int64_t>(rows.phases[p].taps.size());
    for (int r = 0; r < runs.count; ++r) {
      tile.count[r] = kPositions;
      tile.input[r] = runs.input[static_cast<size_t>(r)];
      tile.out[r] = parts[p][r][0];
    }
    convolution_tile::compute(tile, runs.count);
    if (tile.inside != nullptr) tile.inside += tile.tap_count;
  }
  const auto step = static_cast<int64_t>(phases);
  for (int r = 0; r < runs.count; ++r) {
    const auto k = static_cast<size_t>(r);
    const int64_t count = std::min(width.out - runs.column[k] * step, kPositions * step);
    for (int f = 0; f < tile.rows; ++f)
      interleave(parts[0][r][f], kRuns * kFilters * kPositions, phases, count,
                 runs.out[k] + (first_filter + f) * positions);
  }
}

/// Walks through the runs of some rows of results.
class Walk {
 public:
  Walk(const Axes& axes, const Work::Rows& rows) : axes_(axes), rows_(rows) {
    columns_ = axes[2].phases[0].count;  // of the longest phase
    left_ = rows.depth->count * rows.height->count * ((columns_ + kPositions - 1) / kPositions);
  }
  int64_t left() const { return left_; }

  /// Stores the next run at index `k`.
  void next(const Work& work, const float* source, float* out, size_t k, Runs& runs) {
    runs.column[k] = column_;
    runs.from[k] = {z_ * axes_[0].in_step, y_ * axes_[1].in_step};
    runs.input[k] =
        source + column_ + runs.from[k][0] * work.pitches[0] + runs.from[k][1] * work.pitches[1];
    const int64_t d = rows_.depth->start + z_ * axes_[0].out_step;
    const int64_t h = rows_.height->start + y_ * axes_[1].out_step;
    runs.out[k] = out + (d * axes_[1].out + h) * axes_[2].out + column_ * axes_[2].out_step;
    --left_;
    if ((column_ += kPositions) < columns_) return;
    column_ = 0;
    if (++y_ < rows_.height->count) return;
    y_ = 0;
    ++z_;
  }

 private:
  const Axes& axes_;
  const Work::Rows& rows_;
  int64_t columns_ = 0, left_ = 0, column_ = 0, y_ = 0, z_ = 0;
};

/// Computes all results of one image of one group from `source`: the image or its padded copy.
void compute_image(const Work& work, const float* source, const float* filters, const float* bias,
                   float* out) {
  const int64_t block_floats = work.taps() * work.channels * kFilters;
  if (work.spots)
    return convolution_spots::compute(*work.spots, source, filters, block_floats, bias, out);
  std::vector<Inside> inside;
  // Values that all runs share are set once, as images may be small.
  Runs runs;
  Tile tile;
  float offsets[kFilters] = {};
  tile.bias = offsets;
  tile.relu = work.relu;
  tile.channels = work.channels;
  tile.channel_pitch = work.channel_pitch;
  for (const Work::Rows& rows : work.rows)
    for (Walk walk(work.axes, rows); walk.left() > 0;) {
      const int64_t left = walk.left();
      runs.count = static_cast<int>(left == 4 ? 2 : std::min<int64_t>(left, kRuns));
      for (int r = 0; r < runs.count; ++r)
        walk.next(work, source, out, static_cast<size_t>(r), runs);
      if (work.in_place) find_inside(work, rows, runs, inside);
      for (int64_t first = 0; first < work.filters; first += kFilters) {
        tile.rows = static_cast<int>(std::min<int64_t>(work.filters - first, kFilters));
        if (bias != nullptr) std::copy_n(bias + first, tile.rows, offsets);
        tile.filters = filters + first / kFilters * block_floats;
        tile.inside = work.in_place ? inside.data() : nullptr;
        compute_block(work, rows, runs, tile, first);
      }
    }
}

// ------------------------------------------------------------------------------- operator

Axes make_axes(const Tensor& x, at::IntArrayRef output, at::IntArrayRef kernel,
               at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
               bool transposed) {
  const size_t dims = kernel.size();
  TORCH_CHECK(dims >= 1 && dims <= 3 && x.dim() == static_cast<int64_t>(dims) + 3 &&
                  output.size() == dims && stride.size() == dims && padding.size() == dims &&
                  dilation.size() == dims,
              "wide::direct_convolution: x ", x.sizes(), " and kernel ", kernel, " do not fit");
  Axes axes;
  for (size_t a = 0; a < 3; ++a) {
    if (a + dims < 3) {
      axes[a] = make_axis(1, 1, 1, 1, 0, 1, false);
      continue;
    }
    const size_t k = a + dims - 3;
    axes[a] = make_axis(x.size(static_cast<int64_t>(k) + 3), output[k], kernel[k], stride[k],
                        padding[k], dilation[k], transposed);
  }
  TORCH_CHECK(axes[2].phases.size() <= kMaxPhases, "wide::direct_convolution: stride ", stride,
              " is more than ", kMaxPhases, " in the last axis");
  return axes;
}

Tensor& direct_convolution_out(const Tensor& x, const Tensor& filters,
                               const std::optional<Tensor>& bias, int64_t out_channels,
                               at::IntArrayRef kernel, at::IntArrayRef stride,
                               at::IntArrayRef padding, at::IntArrayRef dilation,
                               at::IntArrayRef output, int64_t groups, bool transposed,
                               const std::optional<Tensor>& residual, c10::string_view activation,
                               c10::string_view pool, Tensor& out) {
  const int64_t n = x.size(0), batch = x.size(1), in = x.size(2) / groups;
  const int64_t each = out_channels / groups;
  Image layout;
  layout.channels = in;
  layout.channel_stride = x.stride(2);
  const size_t dims = kernel.size();
  for (size_t k = 0; k < dims; ++k)
    layout.strides[3 - dims + k] = x.stride(static_cast<int64_t>(k) + 3);
  const KernelEpilogue epilogue(activation, residual, out, pool);
  const Work work(make_axes(x, output, kernel, stride, padding, dilation, transposed), in, each,
                  epilogue.relu(), layout);
  const int64_t per_group = (each + kFilters - 1) / kFilters * kFilters * work.taps() * in;
  TORCH_CHECK(filters.is_contiguous() && filters.numel() == n * groups * per_group,
              "wide::direct_convolution: filters ", filters.sizes(), " do not fit x ", x.sizes());
  TORCH_CHECK(
      out.is_contiguous() && epilogue.results() == n * batch * out_channels * work.positions(),
      "wide::direct_convolution: out ", out.sizes(), " is not a contiguous [N, B, O, ...]");
  const Tensor offsets = bias ? bias->contiguous() : Tensor();
  const float *px = x.const_data_ptr<float>(), *pf = filters.const_data_ptr<float>();
  const float* pb = offsets.defined() ? offsets.const_data_ptr<float>() : nullptr;
  at::parallel_for(0, n * batch * groups, 1, [&](int64_t begin, int64_t end) {
    float* scratch =
        work.in_place ? nullptr : kernels::zeroed_memory(static_cast<size_t>(work.scratch.floats));
    for (int64_t job = begin; job < end; ++job) {
      const int64_t g = job % groups, b = job / groups % batch, i = job / groups / batch;
      const int64_t first = ((i * batch + b) * out_channels + g * each) * work.positions();
      const int64_t count = each * work.positions();
      Image image = layout;
      image.data = px + i * x.stride(0) + b * x.stride(1) + g * in * x.stride(2);
      if (!work.in_place) fill(work.axes, work.scratch, image, scratch);
      compute_image(work, work.in_place ? image.data : scratch, pf + (i * groups + g) * per_group,
                    pb == nullptr ? nullptr : pb + i * out_channels + g * each,
                    epilogue.place(first, count));
      if (epilogue.exists()) epilogue.run(first, count);
    }
  });
  return out;
}

/// FLOPs: every result (transposed: every input) is multiplied by each weight of its channel.
double flops(const Program& program, const Node& node) {
  const auto numbers = [&](size_t a) { return node.arguments[a].constant.toIntVector(); };
  const Sizes& x = program.value(node.arguments[0].values[0]).sizes;
  const double filters = double(node.arguments[3].constant.toInt()),
               groups = double(node.arguments[9].constant.toInt()),
               taps = double(c10::multiply_integers(numbers(4)));
  if (node.arguments[10].constant.toBool())
    return 2 * double(c10::multiply_integers(x)) * filters / groups * taps;
  const double places = double(c10::multiply_integers(numbers(8)));
  return 2 * double(x[0] * x[1]) * filters * places * double(x[2]) / groups * taps;
}

[[maybe_unused]] const bool registered = add_operator_traits({.op = "wide::direct_convolution",
                                                              .absorbs = activations::names(),
                                                              .adds = true,
                                                              .pools = pools_planes}) &&
                                         add_flops("wide::direct_convolution", flops);

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(
      m, "direct_convolution",
      "Tensor x, Tensor filters, Tensor? bias, int out_channels, int[] kernel, "
      "int[] stride, int[] padding, int[] dilation, int[] output, int groups, "
      "bool transposed, Tensor? residual, str activation, str pool",
      [](const Tensor& x, const Tensor&, const std::optional<Tensor>&, int64_t out_channels,
         at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef output,
         const auto&...) {
        std::vector<int64_t> sizes{x.size(0), x.size(1), out_channels};
        sizes.insert(sizes.end(), output.begin(), output.end());
        return at::empty(sizes, x.options());
      },
      direct_convolution_out);
}

}  // namespace

Tensor direct_convolution(const Tensor& x, const Tensor& filters, const std::optional<Tensor>& bias,
                          int64_t out_channels, const DirectConvolution& c) {
  return kernels::call("direct_convolution",
                       {x, filters, bias, out_channels, c.kernel, c.stride, c.padding, c.dilation,
                        c.output, c.groups, c.transposed, c10::IValue(), "none", "none"});
}

Tensor pack_filters(const Tensor& weight, int64_t groups, bool transposed) {
  const int64_t n = weight.size(0);
  // [N, groups, filters, channels, taps]
  const Tensor w =
      transposed
          ? weight.reshape({n, groups, weight.size(1) / groups, weight.size(2), -1}).transpose(2, 3)
          : weight.reshape({n, groups, weight.size(1) / groups, weight.size(2), -1});
  const int64_t filters = w.size(2), blocks = (filters + kFilters - 1) / kFilters;
  const Tensor full = blocks * kFilters == filters
                          ? w
                          : at::constant_pad_nd(w, {0, 0, 0, 0, 0, blocks * kFilters - filters});
  return full.reshape({n, groups, blocks, kFilters, w.size(3), w.size(4)})
      .permute({0, 1, 2, 5, 4, 3})
      .contiguous();
}

}  // namespace wide
