#include "primitives/kernels/pooling/adaptive_pool.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "engine/measure/roofline.h"
#include "primitives/kernels/norm/row_reduce.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/registration.h"

namespace wide {

namespace {

using at::Tensor;

/// Where window i of `windows` over `size` elements begins and ends.
struct Window {
  int64_t begin, end;
  Window(int64_t i, int64_t windows, int64_t size)
      : begin(i * size / windows), end(((i + 1) * size + windows - 1) / windows) {}
  int64_t count() const { return end - begin; }
};

/// Pools one plane; `columns` is scratch for W floats.
void pool_plane(const float* x, int64_t h, int64_t w, float* y, int64_t oh, int64_t ow,
                float* columns) {
  if (oh == 1 && ow == 1) {
    y[0] = sum_of_row(x, h * w) / static_cast<float>(h * w);
    return;
  }
  for (int64_t i = 0; i < oh; ++i) {
    const Window rows(i, oh, h);
    sum_of_rows(x + rows.begin * w, rows.count(), w, columns);
    for (int64_t j = 0; j < ow; ++j) {
      const Window cells(j, ow, w);
      float total = 0.0F;
      for (int64_t c = cells.begin; c < cells.end; ++c) total += columns[c];
      y[i * ow + j] = total / static_cast<float>(rows.count() * cells.count());
    }
  }
}

Tensor& pool_out(const Tensor& x, at::IntArrayRef output_size, Tensor& out) {
  TORCH_CHECK(x.dim() >= 2 && output_size.size() == 2 && output_size[0] > 0 && output_size[1] > 0,
              "wide::adaptive_average_pool: x ", x.sizes(), " and output size ", output_size,
              " do not fit");
  const int64_t h = x.size(-2), w = x.size(-1), oh = output_size[0], ow = output_size[1];
  const int64_t planes = x.numel() / (h * w);
  TORCH_CHECK(out.is_contiguous() && out.numel() == planes * oh * ow,
              "wide::adaptive_average_pool: out ", out.sizes(), " is not contiguous or too small");
  const Tensor dense = x.contiguous();
  const float* px = dense.const_data_ptr<float>();
  float* py = out.mutable_data_ptr<float>();
  const int64_t grain = std::max<int64_t>(1, 32768 / (h * w));
  at::parallel_for(0, planes, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> columns(static_cast<size_t>(w));
    for (int64_t p = begin; p < end; ++p)
      pool_plane(px + p * h * w, h, w, py + p * oh * ow, oh, ow, columns.data());
  });
  return out;
}

/// How many elements all windows along one axis read, those in two windows counted twice.
int64_t covered(int64_t windows, int64_t size) {
  int64_t sum = 0;
  for (int64_t i = 0; i < windows; ++i) sum += Window(i, windows, size).count();
  return sum;
}

double adaptive_flops(const Program& program, const Node& node) {
  const at::IntArrayRef x = program.value(node.arguments[0].values[0]).sizes;
  const auto windows = node.arguments[1].constant.toIntVector();
  const int64_t h = x[x.size() - 2], w = x[x.size() - 1];
  return double(c10::multiply_integers(x.slice(0, x.size() - 2))) *
         double(covered(windows[0], h) * covered(windows[1], w));
}

[[maybe_unused]] const bool adaptive_counted =
    add_flops("wide::adaptive_average_pool", adaptive_flops) &&
    add_flops("aten::_adaptive_avg_pool2d", adaptive_flops) &&
    add_flops("aten::adaptive_max_pool2d", adaptive_flops);

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(
      m, "adaptive_average_pool", "Tensor x, int[] output_size",
      [](const Tensor& x, at::IntArrayRef output_size) {
        std::vector<int64_t> sizes = x.sizes().vec();
        std::copy(output_size.begin(), output_size.end(), sizes.end() - 2);
        return at::empty(sizes, x.options());
      },
      pool_out);
}

}  // namespace

Tensor adaptive_average_pool(const Tensor& x, at::IntArrayRef output_size) {
  return kernels::call("adaptive_average_pool", {x, output_size.vec()});
}

}  // namespace wide
