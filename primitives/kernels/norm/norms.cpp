#include "primitives/kernels/norm/norms.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "engine/lower/plan/operator_traits.h"
#include "primitives/kernels/norm/norm_layout.h"
#include "primitives/kernels/norm/norm_rows.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/pointwise/epilogue.h"
#include "primitives/kernels/registration.h"
#include "primitives/kernels/stream.h"

namespace wide {

namespace {

using at::Tensor;
using norms::Images;
using norms::OptionalTensor;
using namespace norm_rows;

/// On destruction makes streamed stores visible to other threads.
struct Fence {
  bool needed;
  ~Fence() {
    if (needed) kernels::stream_fence();
  }
};

int64_t grain(int64_t floats) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(floats, 1)); }

bool aligned(const Tensor& t, int64_t row) {
  return row % kColumns == 0 && reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 64 == 0;
}

/// Runs the activation over all results at the end: for channels_last, where no channel's results
/// are contiguous.
void finish_all(const KernelEpilogue& epilogue, const Tensor& out) {
  if (!epilogue.exists()) return;
  TORCH_CHECK(out.is_non_overlapping_and_dense(), "wide::norm: out has strides ", out.strides());
  at::parallel_for(0, out.numel(), 16384,
                   [&](int64_t begin, int64_t end) { epilogue.run(begin, end - begin); });
}

/// The tensor's floats, or `count` times `value` if there is no tensor.
struct Floats {
  Tensor tensor;
  const float* data;
  Floats(const OptionalTensor& given, int64_t count, float value)
      : tensor(given && given->defined()
                   ? given->contiguous()
                   : at::full({count}, value, at::TensorOptions().dtype(at::kFloat))),
        data(tensor.const_data_ptr<float>()) {
    TORCH_CHECK(tensor.numel() == count, "wide::norm: affine part of ", tensor.sizes(),
                ", expected ", count, " elements");
  }
};

// -------------------------------------------------------------------------------- layer norm

Tensor& layer_norm_out(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                       int64_t d, double eps, bool rms, c10::string_view activation, bool stream,
                       Tensor& out) {
  TORCH_CHECK(x.is_contiguous() && out.is_contiguous() && out.numel() == x.numel(),
              "wide::layer_norm: x ", x.sizes(), " and out ", out.sizes(), " are not contiguous");
  const int64_t rows = x.numel() / d;
  const auto served = [&](const OptionalTensor& t) {
    return t && t->defined() ? t->numel() / d : 1;
  };
  const int64_t parts = std::max(served(weight), served(bias));
  TORCH_CHECK(rows % parts == 0, "wide::layer_norm: ", parts, " affine rows for ", rows, " rows");
  const Floats w(weight, parts * d, 1.0F), b(bias, parts * d, 0.0F);
  const int64_t each = rows / parts;
  const float* px = x.const_data_ptr<float>();
  float* py = out.mutable_data_ptr<float>();
  const KernelEpilogue epilogue(activation, {}, out);
  stream = stream && aligned(out, d) && !epilogue.exists();
  // Rows between two calls of the activation, few enough to be still in the first-level cache.
  const int64_t most =
      epilogue.exists() ? std::max<int64_t>(4, 4096 / std::max<int64_t>(d, 1)) : rows;
  at::parallel_for(0, rows, grain(d), [&](int64_t begin, int64_t end) {
    const Fence fence{stream};
    while (begin < end) {
      const int64_t part = begin / each, stop = std::min({end, (part + 1) * each, begin + most});
      layer_rows(px + begin * d, w.data + part * d, b.data + part * d, py + begin * d, stop - begin,
                 d, static_cast<float>(eps), rms, epilogue.relu(), stream);
      if (epilogue.exists()) epilogue.run(begin * d, (stop - begin) * d);
      begin = stop;
    }
  });
  return out;
}

// ----------------------------------------------------------------------- planes of one channel

Tensor& group_norm_out(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                       int64_t groups, double eps, c10::string_view activation, bool stream,
                       Tensor& out) {
  const Images in(x), to(out);
  TORCH_CHECK(
      in.whole_samples() && to.whole_samples() && x.sizes() == out.sizes() && in.c % groups == 0,
      "wide::group_norm: x ", x.sizes(), " with strides ", x.strides(), " in ", groups, " groups");
  const Floats w(weight, in.n * in.c, 1.0F), b(bias, in.n * in.c, 0.0F);
  const int64_t per = in.c / groups, count = per * in.area;
  const float* px = x.const_data_ptr<float>();
  float* py = out.mutable_data_ptr<float>();
  const KernelEpilogue epilogue(activation, {}, out);
  const bool relu = epilogue.relu();
  stream = stream && aligned(out, in.area) && !epilogue.exists();
  at::parallel_for(0, in.n * in.b * groups, grain(count), [&](int64_t begin, int64_t end) {
    const Fence fence{stream};
    for (int64_t job = begin; job < end; ++job) {
      const int64_t g = job % groups, sample = job / groups, i = sample / in.b, k = sample % in.b;
      const float* from = px + in.offset(i, k, g * per);
      float* dest = py + to.offset(i, k, g * per);
      const float mean = plane_sum(from, count) / static_cast<float>(count);
      const float variance = plane_squares(from, count, mean) / static_cast<float>(count);
      const float scale = 1.0F / std::sqrt(variance + static_cast<float>(eps));
      for (int64_t c = 0; c < per; ++c) {
        const int64_t at = i * in.c + g * per + c;
        plane_shift(from + c * in.area, dest + c * in.area, in.area, mean, scale * w.data[at],
                    b.data[at], relu, stream);
      }
      if (epilogue.exists()) epilogue.run(dest - py, count);
    }
  });
  return out;
}

// -------------------------------------------------------------------------------- batch norm

/// What training batch norm reads and writes for each model and channel; null: no running ones.
struct Statistics {
  const float *w, *b, *old_mean, *old_var;
  float *mean, *invstd, *new_mean, *new_var;
  double momentum, eps, count;

  /// Stores the statistics of channel `at`, from its mean `m` and the sum of (x - m)^2; returns
  /// 1 / sqrt(var + eps).
  float finish(int64_t at, float m, double squares) const {
    const float scale = static_cast<float>(1.0 / std::sqrt(squares / count + eps));
    mean[at] = m;
    invstd[at] = scale;
    if (old_mean != nullptr) {
      const double fresh = squares / (count - 1.0);
      new_mean[at] = static_cast<float>((1.0 - momentum) * old_mean[at] + momentum * m);
      new_var[at] = static_cast<float>((1.0 - momentum) * old_var[at] + momentum * fresh);
    }
    return scale;
  }
};

void batch_planes(const Images& in, const Images& to, const float* px, float* py,
                  const Statistics& s, const KernelEpilogue& epilogue, bool stream) {
  const bool relu = epilogue.relu();
  at::parallel_for(0, in.n * in.c, grain(in.b * in.area), [&](int64_t begin, int64_t end) {
    const Fence fence{stream};
    for (int64_t at = begin; at < end; ++at) {
      const int64_t i = at / in.c, c = at % in.c;
      double sum = 0, squares = 0;
      for (int64_t k = 0; k < in.b; ++k) sum += plane_sum(px + in.offset(i, k, c), in.area);
      const auto mean = static_cast<float>(sum / s.count);
      for (int64_t k = 0; k < in.b; ++k)
        squares += plane_squares(px + in.offset(i, k, c), in.area, mean);
      const float w = s.w[at], b = s.b[at], scale = s.finish(at, mean, squares) * w;
      for (int64_t k = 0; k < in.b; ++k) {
        const int64_t first = to.offset(i, k, c);
        plane_shift(px + in.offset(i, k, c), py + first, in.area, mean, scale, b, relu, stream);
        if (epilogue.exists()) epilogue.run(first, in.area);
      }
    }
  });
}

/// For channels_last: calls `work(model, first channel, how many)` for blocks of up to 16 channels.
template <class Work>
void for_channel_blocks(const Images& in, Work work) {
  const int64_t blocks = (in.c + kColumns - 1) / kColumns, rows = in.b * in.area;
  at::parallel_for(0, in.n * blocks, grain(rows * kColumns), [&](int64_t begin, int64_t end) {
    for (int64_t job = begin; job < end; ++job) {
      const int64_t c = job % blocks * kColumns;
      work(job / blocks, c, std::min(kColumns, in.c - c));
    }
  });
}

void batch_columns(const Images& in, const Images& to, const float* px, float* py,
                   const Statistics& s, bool relu) {
  const int64_t rows = in.b * in.area;
  for_channel_blocks(in, [&](int64_t i, int64_t c, int64_t width) {
    const float* from = px + in.offset(i, 0, c);
    double sums[kColumns];
    float mean[kColumns] = {}, scale[kColumns], shift[kColumns];
    column_sums(from, rows, in.row, width, mean, false, sums);
    for (int64_t j = 0; j < width; ++j) mean[j] = static_cast<float>(sums[j] / s.count);
    column_sums(from, rows, in.row, width, mean, true, sums);
    for (int64_t j = 0; j < width; ++j) {
      const int64_t at = i * in.c + c + j;
      const float w = s.w[at];
      shift[j] = s.b[at];
      scale[j] = s.finish(at, mean[j], sums[j]) * w;
    }
    column_shift(from, py + to.offset(i, 0, c), rows, in.row, to.row, width, mean, scale, shift,
                 relu);
  });
}

using BatchNormOut = std::tuple<Tensor&, Tensor&, Tensor&, Tensor&, Tensor&>;

BatchNormOut batch_norm_out(const Tensor& x, const OptionalTensor& weight,
                            const OptionalTensor& bias, const OptionalTensor& running_mean,
                            const OptionalTensor& running_var, double momentum, double eps,
                            c10::string_view activation, bool stream, Tensor& out, Tensor& mean,
                            Tensor& invstd, Tensor& new_mean, Tensor& new_var) {
  const Images in(x), to(out);
  TORCH_CHECK(in.fits() && in.planes == to.planes && to.fits() && x.sizes() == out.sizes(),
              "wide::batch_norm: x ", x.sizes(), " with strides ", x.strides());
  const int64_t channels = in.n * in.c;
  const bool tracked = running_mean && running_mean->defined();
  const Floats w(weight, channels, 1.0F), b(bias, channels, 0.0F);
  const Floats old_mean(running_mean, tracked ? channels : 0, 0.0F);
  const Floats old_var(running_var, tracked ? channels : 0, 0.0F);
  const Statistics statistics{w.data,
                              b.data,
                              tracked ? old_mean.data : nullptr,
                              tracked ? old_var.data : nullptr,
                              mean.mutable_data_ptr<float>(),
                              invstd.mutable_data_ptr<float>(),
                              tracked ? new_mean.mutable_data_ptr<float>() : nullptr,
                              tracked ? new_var.mutable_data_ptr<float>() : nullptr,
                              momentum,
                              eps,
                              static_cast<double>(in.b * in.area)};
  const float* px = x.const_data_ptr<float>();
  float* py = out.mutable_data_ptr<float>();
  const KernelEpilogue epilogue(activation, {}, out);
  if (in.planes) {
    batch_planes(in, to, px, py, statistics, epilogue,
                 stream && aligned(out, in.area) && !epilogue.exists());
  } else {
    batch_columns(in, to, px, py, statistics, epilogue.relu());
    finish_all(epilogue, out);
  }
  return {out, mean, invstd, new_mean, new_var};
}

// ------------------------------------------------------------------------------- scale, shift

Tensor& scale_shift_out(const Tensor& x, const Tensor& scale, const Tensor& shift,
                        c10::string_view activation, bool stream, Tensor& out) {
  const Images in(x), to(out);
  TORCH_CHECK(in.fits() && in.planes == to.planes && to.fits() && x.sizes() == out.sizes(),
              "wide::scale_shift: x ", x.sizes(), " with strides ", x.strides());
  const Floats w(scale, in.n * in.c, 1.0F), b(shift, in.n * in.c, 0.0F);
  const float* px = x.const_data_ptr<float>();
  float* py = out.mutable_data_ptr<float>();
  const KernelEpilogue epilogue(activation, {}, out);
  const bool relu = epilogue.relu();
  if (!in.planes) {
    const float zero[kColumns] = {};
    for_channel_blocks(in, [&](int64_t i, int64_t c, int64_t width) {
      const int64_t at = i * in.c + c;
      column_shift(px + in.offset(i, 0, c), py + to.offset(i, 0, c), in.b * in.area, in.row, to.row,
                   width, zero, w.data + at, b.data + at, relu);
    });
    finish_all(epilogue, out);
    return out;
  }
  stream = stream && aligned(out, in.area) && !epilogue.exists();
  at::parallel_for(0, in.n * in.b * in.c, grain(in.area), [&](int64_t begin, int64_t end) {
    const Fence fence{stream};
    for (int64_t job = begin; job < end; ++job) {
      const int64_t c = job % in.c, sample = job / in.c, i = sample / in.b, k = sample % in.b;
      plane_shift(px + in.offset(i, k, c), py + to.offset(i, k, c), in.area, 0.0F,
                  w.data[i * in.c + c], b.data[i * in.c + c], relu, stream);
      if (epilogue.exists()) epilogue.run(to.offset(i, k, c), in.area);
    }
  });
  return out;
}

// ------------------------------------------------------------------------------ registration

// All of a row, plane or column is read before it is overwritten, so `out` may be `x`.
[[maybe_unused]] const bool registered[] = {
    add_operator_traits(
        {.op = "wide::layer_norm", .in_place = true, .absorbs = activations::names()}),
    add_operator_traits(
        {.op = "wide::group_norm", .in_place = true, .absorbs = activations::names()}),
    add_operator_traits(
        {.op = "wide::batch_norm", .in_place = true, .absorbs = activations::names()}),
    add_operator_traits(
        {.op = "wide::scale_shift", .in_place = true, .absorbs = activations::names()})};

TORCH_LIBRARY_FRAGMENT(wide, m) {
  const auto like_x = [](const Tensor& x, const auto&...) { return at::empty_like(x); };
  kernels::add_filled_operator(
      m, "layer_norm",
      "Tensor x, Tensor? weight, Tensor? bias, int d, float eps, bool rms, str "
      "activation, bool stream",
      kernels::like_first, layer_norm_out);
  kernels::add_filled_operator(m, "group_norm",
                               "Tensor x, Tensor? weight, Tensor? bias, int groups, float eps, str "
                               "activation, bool stream",
                               like_x, group_norm_out);
  kernels::add_filled_operator(
      m, "batch_norm",
      "Tensor x, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
      "running_var, float momentum, float eps, str activation, bool stream",
      [](const Tensor& x, const OptionalTensor&, const OptionalTensor&,
         const OptionalTensor& running_mean, const auto&...) {
        const int64_t n = x.size(0), c = x.size(2);
        const auto per_channel = [&](bool present) {
          return present ? at::empty({n, c}, x.options()) : at::empty({0}, x.options());
        };
        const bool tracked = running_mean && running_mean->defined();
        return std::tuple(at::empty_like(x), per_channel(true), per_channel(true),
                          per_channel(tracked), per_channel(tracked));
      },
      batch_norm_out, {.results = {"out", "mean", "invstd", "new_mean", "new_var"}});
  kernels::add_filled_operator(m, "scale_shift",
                               "Tensor x, Tensor scale, Tensor shift, str activation, bool stream",
                               like_x, scale_shift_out);
}

}  // namespace

namespace norms {

Tensor layer_norm(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                  int64_t d, double eps, bool rms) {
  return kernels::call("layer_norm", {x, weight, bias, d, eps, rms, "none", false});
}

Tensor group_norm(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                  int64_t groups, double eps) {
  return kernels::call("group_norm", {x, weight, bias, groups, eps, "none", false});
}

std::vector<Tensor> batch_norm(const Tensor& x, const OptionalTensor& weight,
                               const OptionalTensor& bias, const OptionalTensor& running_mean,
                               const OptionalTensor& running_var, double momentum, double eps) {
  return kernels::results(
      "batch_norm", {x, weight, bias, running_mean, running_var, momentum, eps, "none", false});
}

Tensor scale_shift(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  return kernels::call("scale_shift", {x, scale, shift, "none", false});
}

Tensor for_group_norm(const Tensor& x) { return Images(x).whole_samples() ? x : x.contiguous(); }

Tensor for_batch_norm(const Tensor& x) { return Images(x).fits() ? x : x.contiguous(); }

}  // namespace norms

}  // namespace wide
