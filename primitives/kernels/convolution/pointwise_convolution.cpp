#include "primitives/kernels/convolution/pointwise_convolution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "engine/lower/plan/operator_traits.h"
#include "engine/measure/roofline.h"
#include "primitives/kernels/gemm/matmul_tile.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/pointwise/epilogue.h"
#include "primitives/kernels/registration.h"

namespace wide {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

constexpr int64_t kFiltersOfJob = 8;  // filters of a tile

/// `[N, B, C, positions]`, without a copy if positions are evenly spaced.
Tensor with_positions_joined(const Tensor& x) {
  int64_t positions = 1;
  for (int64_t k = 3; k < x.dim(); ++k) positions *= x.size(k);
  int64_t step = 0;  // the next outer axis must have this stride
  for (int64_t k = x.dim(); k-- > 3;) {
    if (x.size(k) == 1) continue;
    if (step != 0 && x.stride(k) != step) return with_positions_joined(x.contiguous());
    step = x.stride(k) * x.size(k);
  }
  return x.as_strided(
      {x.size(0), x.size(1), x.size(2), positions},
      {x.stride(0), x.stride(1), x.stride(2), positions > 1 ? step / positions : 1});
}

Tensor& pointwise_convolution_out(const Tensor& x_, const Tensor& w_, const OptionalTensor& bias,
                                  const OptionalTensor& residual, c10::string_view activation,
                                  c10::string_view pool, Tensor& out) {
  const int64_t n = x_.size(0), batch = x_.size(1), in = x_.size(2), filters = w_.size(1);
  TORCH_CHECK(
      x_.dim() >= 4 && w_.dim() == x_.dim() && w_.size(0) == n && w_.numel() == n * filters * in,
      "wide::pointwise_convolution: x ", x_.sizes(), " and w ", w_.sizes(), " do not fit");
  TORCH_CHECK(!bias || bias->numel() == n * filters,
              "wide::pointwise_convolution: bias does not fit w ", w_.sizes());
  const Tensor x = with_positions_joined(x_), w = w_.contiguous();
  const int64_t positions = x.size(3), results = filters * positions;
  const KernelEpilogue epilogue(activation, residual, out, pool);
  TORCH_CHECK(out.is_contiguous() && epilogue.results() == n * batch * results,
              "wide::pointwise_convolution: out ", out.sizes(),
              " is not a contiguous [N, B, O, ...]");
  if (out.numel() == 0) return out;
  const Tensor offsets = bias ? bias->contiguous() : Tensor();
  const float *px = x.const_data_ptr<float>(), *pw = w.const_data_ptr<float>();
  const float* pb = offsets.defined() ? offsets.const_data_ptr<float>() : nullptr;
  // With few images, their filters are spread over the threads too.
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  const int64_t parts = threads == 1 || n * batch >= 2 * threads
                            ? 1
                            : std::clamp<int64_t>(filters / kFiltersOfJob, 1, 2 * threads);
  at::parallel_for(0, n * batch * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t job = begin; job < end; ++job) {
      const int64_t part = job % parts, b = job / parts % batch, i = job / parts / batch;
      const int64_t first = filters * part / parts, last = filters * (part + 1) / parts;
      const int64_t place = (i * batch + b) * results + first * positions;
      matmul_tile::Product p;
      p.rows = last - first;
      p.inner = in;
      p.columns = positions;
      p.a = {pw + (i * filters + first) * in, in, 1};
      p.b = {px + i * x.stride(0) + b * x.stride(1), x.stride(2), x.stride(3)};
      if (pb != nullptr) p.row_bias = pb + i * filters + first;
      p.out = epilogue.place(place, p.rows * positions);
      p.out_stride = positions;
      p.relu = epilogue.relu();
      matmul_tile::multiply(p, 0, matmul_tile::panel_count(positions));
      if (epilogue.exists()) epilogue.run(place, p.rows * positions);
    }
  });
  return out;
}

/// FLOPs: every element of the result is a sum over the channels.
double flops(const Program& program, const Node& node) {
  const Sizes &x = program.value(node.arguments[0].values[0]).sizes,
              &made = program.value(node.results[0].values[0]).sizes;
  return 2.0 * double(c10::multiply_integers(made)) * double(x[2]);
}

[[maybe_unused]] const bool registered = add_operator_traits({.op = "wide::pointwise_convolution",
                                                              .absorbs = activations::names(),
                                                              .adds = true,
                                                              .pools = pools_planes}) &&
                                         add_flops("wide::pointwise_convolution", flops);

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(
      m, "pointwise_convolution",
      "Tensor x, Tensor w, Tensor? bias, Tensor? residual, str activation, str pool",
      [](const Tensor& x, const Tensor& w, const auto&...) {
        std::vector<int64_t> sizes = x.sizes().vec();
        sizes[2] = w.size(1);
        return at::empty(sizes, x.options());
      },
      pointwise_convolution_out);
}

}  // namespace

Tensor pointwise_convolution(const Tensor& x, const Tensor& w, const OptionalTensor& bias) {
  return kernels::call("pointwise_convolution", {x, w, bias, c10::IValue(), "none", "none"});
}

}  // namespace wide
