#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "engine/lower/plan/operator_traits.h"
#include "engine/measure/roofline.h"
#include "primitives/kernels/gemm/matmul_tile.h"
#include "primitives/kernels/pointwise/activations.h"
#include "primitives/kernels/registration.h"

namespace wide::stacked_matmul {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

constexpr double kWorkOfJob = 65536;  // multiplications that justify another thread

Tensor turned(const Tensor& t, bool transpose) { return transpose ? t.transpose(1, 2) : t; }

/// The tensor, or a copy with contiguous rows or columns; a size-1 dimension's stride is ignored.
Tensor in_pieces(const Tensor& t) {
  const bool rows = t.size(2) == 1 || t.stride(2) == 1,
             columns = t.size(1) == 1 || t.stride(1) == 1;
  return rows || columns ? t : t.contiguous();
}

matmul_tile::Matrix matrix(const Tensor& t, int64_t i) {
  const bool rows = t.size(2) == 1 || t.stride(2) == 1;
  const float* data = t.const_data_ptr<float>() + i * t.stride(0);
  return rows ? matmul_tile::Matrix{data, t.stride(1), 1}
              : matmul_tile::Matrix{data, t.stride(1), t.stride(2)};
}

/// op(a) op(b) + bias for each of n pairs of matrices, where `transpose_*` transposes a matrix
/// first: op(a) [n, M, K], op(b) [n, K, O], bias [n, 1, O], result [n, M, O]; float32 on the CPU,
/// any strides. An activation (primitives/kernels/pointwise/activations.h) may come after it.
Tensor& matmul_out(const Tensor& a_, const Tensor& b_, bool transpose_a, bool transpose_b,
                   const OptionalTensor& bias, c10::string_view activation, Tensor& out) {
  TORCH_CHECK(a_.dim() == 3 && b_.dim() == 3, "wide::matmul: got ", a_.sizes(), " and ",
              b_.sizes());
  const Tensor a = in_pieces(turned(a_, transpose_a)), b = in_pieces(turned(b_, transpose_b));
  const int64_t n = a.size(0), m = a.size(1), k = a.size(2), o = b.size(2);
  TORCH_CHECK(b.size(0) == n && b.size(1) == k, "wide::matmul: ", a.sizes(), " and ", b.sizes(),
              " do not fit");
  TORCH_CHECK(out.is_contiguous() && out.numel() == n * m * o, "wide::matmul: out ", out.sizes(),
              " is not a contiguous [N, M, O]");
  TORCH_CHECK(
      !bias || (bias->dim() == 3 && bias->size(0) == n && bias->size(1) == 1 && bias->size(2) == o),
      "wide::matmul: bias does not fit out ", out.sizes());
  if (out.numel() == 0) return out;
  const bool relu = activation == "relu";
  const chains::Code* activate = relu ? nullptr : activations::find(activation);
  const int64_t panels = matmul_tile::panel_count(o);
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  const int64_t parts = threads == 1 ? 1 : std::min(panels, (2 * threads + n - 1) / n);
  const float* offset = bias ? bias->const_data_ptr<float>() : nullptr;
  auto* to = out.mutable_data_ptr<float>();
  const double work = double(m) * double(k) * double(o) / double(parts);
  const auto grain = static_cast<int64_t>(std::max(1.0, kWorkOfJob / std::max(work, 1.0)));
  at::parallel_for(0, n * parts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t job = begin; job < end; ++job) {
      const int64_t i = job / parts, part = job % parts;
      const int64_t first = panels * part / parts, last = panels * (part + 1) / parts;
      matmul_tile::Product p;
      p.rows = m;
      p.inner = k;
      p.columns = o;
      p.a = matrix(a, i);
      p.b = matrix(b, i);
      if (offset != nullptr) p.bias = offset + i * bias->stride(0);
      p.bias_stride = bias && o > 1 ? bias->stride(2) : 1;
      p.out = to + i * m * o;
      p.out_stride = o;
      p.relu = relu;
      matmul_tile::multiply(p, first, last);
      if (activate == nullptr) continue;
      const int64_t from = matmul_tile::first_column(o, first);
      const int64_t columns = matmul_tile::first_column(o, last) - from;
      activations::run(*activate, p.out + from, m, columns, o);
    }
  });
  return out;
}

/// FLOPs: every element of the result is a sum over the rows of b.
double flops(const Program& program, const Node& node) {
  const Sizes &a = program.value(node.arguments[0].values[0]).sizes,
              &made = program.value(node.results[0].values[0]).sizes;
  const int64_t inner = a[node.arguments[2].constant.toBool() ? 1 : 2];
  return 2.0 * double(c10::multiply_integers(made)) * double(inner);
}

[[maybe_unused]] const bool registered =
    add_operator_traits({.op = "wide::matmul", .product = true, .absorbs = activations::names()}) &&
    add_flops("wide::matmul", flops);

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(
      m, "matmul",
      "Tensor a, Tensor b, bool transpose_a, bool transpose_b, Tensor? bias, str activation",
      [](const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const auto&...) {
        return at::empty({a.size(0), a.size(transpose_a ? 2 : 1), b.size(transpose_b ? 1 : 2)},
                         a.options());
      },
      matmul_out);
}

}  // namespace
}  // namespace wide::stacked_matmul
