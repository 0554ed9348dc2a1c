#include "primitives/kernels/gemm/packed_linear.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "engine/lower/plan/operator_traits.h"
#include "engine/machine/large_pages.h"
#include "engine/measure/roofline.h"
#include "primitives/kernels/gemm/panel_gemm.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/pointwise/activations.h"
#include "primitives/kernels/registration.h"

namespace wide {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

constexpr double kWorkOfJob = 65536;      // multiplications that justify another thread
constexpr int64_t kFloatsInCache = 6144;  // results that fill half of a first-level cache

Tensor pack_panels_kernel(const Tensor& weight, const OptionalTensor& bias) {
  TORCH_CHECK(weight.dim() == 3 && (!bias || (bias->dim() == 2 && bias->size(0) == weight.size(0) &&
                                              bias->size(1) == weight.size(2))),
              "wide::pack_panels: weight ", weight.sizes(), " and its bias do not fit");
  const int64_t n = weight.size(0), inner = weight.size(1), columns = weight.size(2);
  const int64_t floats = panel_gemm::packed_floats(inner, columns);
  const Tensor panels = empty_to_keep({n, floats}, weight.options());
  const float* from = weight.const_data_ptr<float>();
  const float* offset = bias ? bias->const_data_ptr<float>() : nullptr;
  auto* to = panels.mutable_data_ptr<float>();
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      panel_gemm::pack(
          {inner, columns, from + i * weight.stride(0), weight.stride(1), weight.stride(2),
           bias ? offset + i * bias->stride(0) : nullptr, bias ? bias->stride(1) : 0},
          to + i * floats);
  });
  return panels;
}

/// How a call's results are split into jobs: some rows and panels of one model each.
struct Jobs {
  int64_t rows, row_blocks, parts;  // rows of a block; number of blocks; parts of the panels

  Jobs(int64_t n, int64_t m, int64_t columns, bool activates) {
    // Blocks are small enough that the activation reads results from the first-level cache.
    rows = activates ? std::clamp<int64_t>(kFloatsInCache / columns, 8, 64) : 128;
    row_blocks = (m + rows - 1) / rows;
    const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
    const int64_t missing = (2 * threads + n * row_blocks - 1) / (n * row_blocks);
    parts = threads == 1 ? 1 : std::min(missing, panel_gemm::panel_count(columns));
  }
};

/// Whether rows are contiguous; their distance may be any.
bool rows_contiguous(const Tensor& t) {
  return t.dim() == 3 && (t.size(2) == 1 || t.stride(2) == 1);
}

Tensor& packed_linear_out(const Tensor& x, const Tensor& panels, int64_t out_features,
                          const OptionalTensor& residual, c10::string_view activation,
                          Tensor& out) {
  const int64_t n = x.size(0), m = x.size(1), k = x.size(2), o = out_features;
  const int64_t each = panel_gemm::packed_floats(k, o);
  TORCH_CHECK(rows_contiguous(x) && panels.is_contiguous() && panels.numel() == n * each,
              "wide::packed_linear: x ", x.sizes(), " and panels ", panels.sizes(), " for ", o,
              " columns do not fit");
  TORCH_CHECK(out.is_contiguous() && out.numel() == n * m * o, "wide::packed_linear: out ",
              out.sizes(), " is not a contiguous [N, M, O]");
  TORCH_CHECK(!residual || (residual->sizes() == out.sizes() && rows_contiguous(*residual)),
              "wide::packed_linear: residual does not fit out ", out.sizes());
  if (out.numel() == 0) return out;
  const bool relu = activation == "relu";
  const chains::Code* activate = relu ? nullptr : activations::find(activation);
  const Jobs jobs(n, m, o, activate != nullptr);
  const int64_t panel_count = panel_gemm::panel_count(o);
  const float *px = x.const_data_ptr<float>(), *pw = panels.const_data_ptr<float>();
  const float* pr = residual ? residual->const_data_ptr<float>() : nullptr;
  float* po = out.mutable_data_ptr<float>();
  const double work = static_cast<double>(std::min(jobs.rows, m)) * static_cast<double>(k) *
                      static_cast<double>(o) / static_cast<double>(jobs.parts);
  const auto grain = static_cast<int64_t>(std::max(1.0, kWorkOfJob / std::max(work, 1.0)));
  at::parallel_for(0, n * jobs.row_blocks * jobs.parts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t job = begin; job < end; ++job) {
      const int64_t part = job % jobs.parts, i = job / jobs.parts / jobs.row_blocks;
      const int64_t row = job / jobs.parts % jobs.row_blocks * jobs.rows;
      const int64_t first = panel_count * part / jobs.parts;
      const int64_t last = panel_count * (part + 1) / jobs.parts;
      panel_gemm::Product p;
      p.rows = std::min(jobs.rows, m - row);
      p.inner = k;
      p.columns = o;
      p.a = px + i * x.stride(0) + row * x.stride(1);
      p.a_stride = x.stride(1);
      p.panels = pw + i * each;
      if (residual) {
        p.residual = pr + i * residual->stride(0) + row * residual->stride(1);
        p.residual_stride = residual->stride(1);
      }
      p.out = po + (i * m + row) * o;
      p.out_stride = o;
      p.relu = relu;
      panel_gemm::multiply(p, first, last);
      if (activate == nullptr) continue;
      const int64_t from = panel_gemm::first_column(o, first);
      const int64_t columns = panel_gemm::first_column(o, last) - from;
      activations::run(*activate, p.out + from, p.rows, columns, o);
    }
  });
  return out;
}

/// FLOPs: x `[N, rows, in]` times the columns of the result.
double flops(const Program& program, const Node& node) {
  const auto &x = program.value(node.arguments[0].values[0]).sizes,
             &made = program.value(node.results[0].values[0]).sizes;
  return 2.0 * double(c10::multiply_integers(made)) * double(x.back());
}

[[maybe_unused]] const bool registered =
    add_operator_traits(
        {.op = "wide::packed_linear", .absorbs = activations::names(), .adds = true}) &&
    add_flops("wide::packed_linear", flops);

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_operator(m, "pack_panels", "Tensor weight, Tensor? bias", pack_panels_kernel);
  kernels::add_filled_operator(
      m, "packed_linear",
      "Tensor x, Tensor panels, int out_features, Tensor? residual, str activation",
      [](const Tensor& x, const Tensor&, int64_t out_features, const auto&...) {
        return at::empty({x.size(0), x.size(1), out_features}, x.options());
      },
      packed_linear_out);
}

}  // namespace

Tensor pack_panels(const Tensor& weight, const OptionalTensor& bias) {
  return kernels::call("pack_panels", {weight, bias});
}

Tensor packed_linear(const Tensor& x, const Tensor& panels, int64_t out_features) {
  return kernels::call("packed_linear", {x, panels, out_features, c10::IValue(), "none"});
}

}  // namespace wide
