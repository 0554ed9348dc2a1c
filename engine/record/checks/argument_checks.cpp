#include "engine/record/checks/argument_checks.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace wide {

namespace {

using Arguments = c10::ArrayRef<IValue>;

std::string sizes_of(const Tensor& t) { return fmt::format("[{}]", fmt::join(t.sizes(), ", ")); }

/// Weight, bias and running statistics of a normalisation: one number for each channel.
std::string per_channel(Arguments a) {
  const Tensor& x = a[0].toTensor();
  if (x.dim() < 2) return fmt::format("an input of {}", sizes_of(x));
  for (size_t i = 1; i < a.size(); ++i)
    if (a[i].isTensor() && a[i].toTensor().defined() && a[i].toTensor().numel() != x.size(1))
      return fmt::format("{} for {} channels", sizes_of(a[i].toTensor()), x.size(1));
  return "";
}

/// Directions and lengths: one length for each slice of the first or last dimension.
std::string per_slice(Arguments a) {
  const Tensor &v = a[0].toTensor(), &g = a[1].toTensor();
  const int64_t dim = a[2].toInt();
  if (v.dim() > 0 && (dim == 0 || dim == v.dim() - 1) && g.numel() == v.size(dim)) return "";
  return fmt::format("{} for slices along {} of {}", sizes_of(g), dim, sizes_of(v));
}

/// Queries, keys and values: batches, heads and lengths that go together.
/// Several heads of queries may share one of keys and values.
std::string attention(Arguments a) {
  const Tensor &q = a[0].toTensor(), &k = a[1].toTensor(), &v = a[2].toTensor();
  const bool fits = q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(0) == k.size(0) &&
                    k.size(1) > 0 && q.size(1) % k.size(1) == 0 && q.size(3) == k.size(3) &&
                    k.sizes() == v.sizes();
  return fits
             ? ""
             : fmt::format("queries {}, keys {}, values {}", sizes_of(q), sizes_of(k), sizes_of(v));
}

/// Scales of a resize, from which kernels compute the positions that they read.
std::string scales(Arguments a) {
  for (const IValue& v : a)
    if (v.isDouble() && !(v.toDouble() > 1e-6 && v.toDouble() < 1e6))
      return fmt::format("a scale of {}", v.toDouble());
  return "";
}

/// The complex input of a real inverse FFT must have enough elements for the size asked for.
std::string half_spectrum(Arguments a) {
  const Tensor& x = a[0].toTensor();
  const auto dims = a[1].toIntVector();
  const int64_t wanted = a[3].toInt();
  if (dims.empty()) return "no dimensions";
  const int64_t last = dims.back() < 0 ? dims.back() + x.dim() : dims.back();
  if (last < 0 || last >= x.dim()) return fmt::format("dimension {} of {}", last, sizes_of(x));
  return wanted >= 1 && wanted / 2 + 1 <= x.size(last)
             ? ""
             : fmt::format("{} for {} results", sizes_of(x), wanted);
}

using Check = std::string (*)(Arguments);

const std::map<std::string, Check>& checks() {
  static const std::map<std::string, Check> all = {
      {"aten::native_batch_norm", per_channel},
      {"aten::_native_batch_norm_legit", per_channel},
      {"aten::_native_batch_norm_legit_functional", per_channel},
      {"aten::_native_batch_norm_legit_no_training", per_channel},
      {"aten::_batch_norm_impl_index", per_channel},
      {"aten::_weight_norm_interface", per_slice},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
      {"aten::_upsample_bilinear2d_aa", scales},
      {"aten::_upsample_bicubic2d_aa", scales},
      {"aten::_fft_c2r", half_spectrum}};
  return all;
}

}  // namespace

std::string fault_of_arguments(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments) {
  const auto check = checks().find(op.schema().name());
  return check == checks().end() ? "" : check->second(arguments);
}

}  // namespace wide
