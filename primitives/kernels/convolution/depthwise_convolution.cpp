#include "primitives/kernels/convolution/depthwise_convolution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "engine/lower/plan/operator_traits.h"
#include "engine/measure/roofline.h"
#include "primitives/kernels/convolution/depthwise_tile.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/pointwise/epilogue.h"
#include "primitives/kernels/registration.h"
#include "primitives/kernels/zeroed_memory.h"

namespace wide {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

constexpr int64_t kWorkOfJob = 65536;  // multiplications that justify another thread

/// One spatial axis.
struct Along {
  int64_t in = 1, out = 1, taps = 1, step = 1, padding = 0, dilation = 1;
  int64_t extent() const { return (out - 1) * step + (taps - 1) * dilation + 1; }
  /// Range of the padded extent that lies inside the image.
  int64_t begin() const { return std::min(padding, extent()); }
  int64_t end() const { return std::clamp<int64_t>(padding + in, 0, extent()); }
};

/// A padded image of one channel, `[row][residue][column]`: columns are sorted by their residue
/// modulo the stride, so that neighbouring results read neighbouring inputs.
struct Padded {
  Along rows, columns;
  int64_t per_residue, pitch, floats;
  std::vector<int64_t> offsets;  // for the taps of a row

  Padded(const Along& down, const Along& across) : rows(down), columns(across) {
    per_residue = (across.extent() + across.step - 1) / across.step;
    pitch = per_residue * across.step;
    floats = pitch * down.extent() + depthwise_tile::kSpare;
    for (int64_t j = 0; j < across.taps; ++j) offsets.push_back(place(j * across.dilation));
  }
  int64_t place(int64_t column) const {
    return column % columns.step * per_residue + column / columns.step;
  }
};

/// Copies an image; the padding around it is zero already.
void fill(const Padded& p, const float* image, int64_t row_stride, int64_t column_stride,
          float* to) {
  constexpr int64_t kBlock = 16;
  const int64_t first = p.columns.begin(), past = p.columns.end();
  for (int64_t y = p.rows.begin(); y < p.rows.end(); ++y) {
    const float* from =
        image + (y - p.rows.padding) * row_stride - p.columns.padding * column_stride;
    float* row = to + y * p.pitch;
    int64_t x = first;
    if (p.columns.step == 1 && column_stride == 1)  // short rows: avoids a call of memcpy each
      for (; x + kBlock <= past; x += kBlock)
        std::memcpy(row + x, from + x, kBlock * sizeof(float));
    for (; x < past; ++x) row[p.place(x)] = from[x * column_stride];
  }
}

Along along(const Tensor& x, const Tensor& w, size_t axis, size_t axes, at::IntArrayRef stride,
            at::IntArrayRef padding, at::IntArrayRef dilation, at::IntArrayRef output) {
  const auto dim = static_cast<int64_t>(axis) + 3;
  TORCH_CHECK(stride.size() == axes && padding.size() == axes && dilation.size() == axes &&
                  output.size() == axes && stride[axis] > 0 && dilation[axis] > 0 &&
                  padding[axis] >= 0,
              "wide::depthwise_convolution: x ", x.sizes(), " and its layer do not fit");
  return {x.size(dim), output[axis], w.size(dim), stride[axis], padding[axis], dilation[axis]};
}

Tensor& depthwise_convolution_out(const Tensor& x, const Tensor& w_, const OptionalTensor& bias,
                                  at::IntArrayRef stride, at::IntArrayRef padding,
                                  at::IntArrayRef dilation, at::IntArrayRef output,
                                  const OptionalTensor& residual, c10::string_view activation,
                                  c10::string_view pool, Tensor& out) {
  const auto axes = static_cast<size_t>(std::max<int64_t>(x.dim() - 3, 0));
  TORCH_CHECK((axes == 1 || axes == 2) && w_.dim() == x.dim() && w_.size(0) == x.size(0) &&
                  w_.size(2) == 1 && x.size(2) > 0 && w_.size(1) % x.size(2) == 0,
              "wide::depthwise_convolution: x ", x.sizes(), " and w ", w_.sizes(), " do not fit");
  const Tensor w = w_.contiguous();
  const int64_t n = x.size(0), batch = x.size(1), channels = x.size(2);
  const int64_t each = w.size(1) / channels;  // filters per channel
  const Along down = axes == 2 ? along(x, w, 0, axes, stride, padding, dilation, output) : Along();
  const Padded padded(down, along(x, w, axes - 1, axes, stride, padding, dilation, output));
  const int64_t positions = down.out * padded.columns.out, taps = down.taps * padded.columns.taps;
  const KernelEpilogue epilogue(activation, residual, out, pool);
  TORCH_CHECK(out.is_contiguous() && epilogue.results() == n * batch * channels * each * positions,
              "wide::depthwise_convolution: out ", out.sizes(),
              " is not a contiguous [N, B, O, ...]");
  TORCH_CHECK(!bias || bias->numel() == n * channels * each,
              "wide::depthwise_convolution: bias does not fit w ", w.sizes());
  if (out.numel() == 0) return out;
  const Tensor offsets = bias ? bias->contiguous() : Tensor();
  const float *px = x.const_data_ptr<float>(), *pw = w.const_data_ptr<float>();
  const float* pb = offsets.defined() ? offsets.const_data_ptr<float>() : nullptr;
  const int64_t row_stride = axes == 2 ? x.stride(3) : 0, column_stride = x.stride(-1);
  const int64_t grain = kWorkOfJob / std::max<int64_t>(1, each * positions * taps) + 1;
  at::parallel_for(0, n * batch * channels, grain, [&](int64_t begin, int64_t end) {
    float* image = kernels::zeroed_memory(static_cast<size_t>(padded.floats));
    for (int64_t job = begin; job < end; ++job) {
      const int64_t c = job % channels, b = job / channels % batch, i = job / channels / batch;
      fill(padded, px + i * x.stride(0) + b * x.stride(1) + c * x.stride(2), row_stride,
           column_stride, image);
      depthwise_tile::Plane plane;
      plane.image = image;
      plane.pitch = padded.pitch;
      plane.rows = down.taps;
      plane.columns = padded.columns.taps;
      plane.offsets = padded.offsets.data();
      plane.row_step = down.step;
      plane.row_dilation = down.dilation;
      plane.out_rows = down.out;
      plane.out_columns = padded.columns.out;
      plane.relu = epilogue.relu();
      float* place = epilogue.place(job * each * positions, each * positions);
      for (int64_t f = c * each; f < (c + 1) * each; ++f) {
        plane.filter = pw + (i * channels * each + f) * taps;
        plane.bias = pb == nullptr ? 0.0F : pb[i * channels * each + f];
        plane.out = place + (f - c * each) * positions;
        depthwise_tile::compute(plane);
      }
      if (epilogue.exists()) epilogue.run(job * each * positions, each * positions);
    }
  });
  return out;
}

/// FLOPs: every element of the result is a sum over the taps.
double flops(const Program& program, const Node& node) {
  const Sizes &w = program.value(node.arguments[1].values[0]).sizes,
              &made = program.value(node.results[0].values[0]).sizes;
  const double taps = double(c10::multiply_integers(w)) / double(std::max<int64_t>(1, w[0] * w[1]));
  return 2.0 * double(c10::multiply_integers(made)) * taps;
}

[[maybe_unused]] const bool registered = add_operator_traits({.op = "wide::depthwise_convolution",
                                                              .absorbs = activations::names(),
                                                              .adds = true,
                                                              .pools = pools_planes}) &&
                                         add_flops("wide::depthwise_convolution", flops);

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(
      m, "depthwise_convolution",
      "Tensor x, Tensor w, Tensor? bias, int[] stride, int[] padding, int[] "
      "dilation, int[] output, Tensor? residual, str activation, str pool",
      [](const Tensor& x, const Tensor& w, const OptionalTensor&, at::IntArrayRef, at::IntArrayRef,
         at::IntArrayRef, at::IntArrayRef output, const auto&...) {
        std::vector<int64_t> sizes{x.size(0), x.size(1), w.size(1)};
        sizes.insert(sizes.end(), output.begin(), output.end());
        return at::empty(sizes, x.options());
      },
      depthwise_convolution_out);
}

}  // namespace

Tensor depthwise_convolution(const Tensor& x, const Tensor& w, const OptionalTensor& bias,
                             const DepthwiseConvolution& layer) {
  return kernels::call("depthwise_convolution",
                       {x, w, bias, layer.stride, layer.padding, layer.dilation, layer.output,
                        c10::IValue(), "none", "none"});
}

}  // namespace wide
