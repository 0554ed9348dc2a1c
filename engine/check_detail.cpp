#include "engine/check_detail.h"

#include <ATen/ATen.h>

#include <limits>

#include "engine/error.h"

namespace wide::detail {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Complex numbers are compared as pairs of reals.
Tensor plain(const Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
}

bool is_real(const Tensor& tensor) { return tensor.is_floating_point() || tensor.is_complex(); }

/// One model's output. An infinite error says that no number would describe the difference.
Deviation compare_reals(const Tensor& got, const Tensor& expected) {
  const Tensor g = plain(got).to(at::kDouble), e = plain(expected).to(at::kDouble);
  const Tensor finite = e.isfinite();
  // NaN where the reference has NaN and the same infinity where it has one are no difference.
  const Tensor broken =
      at::where(finite, g.isfinite().logical_not(),
                (g.eq(e).logical_or(g.isnan().logical_and(e.isnan()))).logical_not());
  if (const int64_t count = broken.sum().item<int64_t>(); count > 0)
    return {kInfinity,
            fmt::format("{} of {} values not finite as the reference is", count, broken.numel())};
  const Tensor zero = at::zeros({}, e.options());
  const double difference = at::where(finite, (g - e).abs(), zero).max().item<double>();
  const double scale = at::where(finite, e.abs(), zero).max().item<double>();
  const double error = scale > 0 ? difference / scale : difference;
  return {error, fmt::format("relative error {:.2g}", error)};
}

Deviation compare_integers(const Tensor& got, const Tensor& expected, const Tensor& own) {
  Tensor differs = got.ne(expected);
  if (own.defined()) differs = differs.logical_and(got.ne(own));
  const int64_t count = differs.sum().item<int64_t>();
  if (count == 0) return {};
  return {kInfinity, fmt::format("{} of {} integers differ", count, differs.numel())};
}

std::string shape_text(const Tensor& tensor) {
  return fmt::format("{}[{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes().vec(), ", "));
}

}  // namespace

std::vector<std::string> result_names(const Program& single) {
  std::vector<std::string> names;
  for (size_t k = 0; k < single.outputs.size(); ++k) names.push_back(fmt::format("output {}", k));
  for (const Update& update : single.updates)
    names.push_back("update of " + single.values[static_cast<size_t>(update.target)].name);
  return names;
}

Deviation compare(const std::vector<std::string>& names, const Tensors& got,
                  const Tensors& expected, const Tensors& own) {
  if (got.size() != expected.size())
    return {kInfinity, fmt::format("results: got {}, expected {}", got.size(), expected.size())};
  Deviation worst;
  worst.text = "no difference";
  const auto note = [&](const Deviation& found, const std::string& where) {
    if (!(found.error > worst.error)) return;
    worst = {found.error, fmt::format("{}: {}", where, found.text)};
  };
  for (size_t k = 0; k < got.size(); ++k) {
    const std::string name = k < names.size() ? names[k] : fmt::format("output {}", k);
    if (!got[k].defined() || got[k].sizes() != expected[k].sizes() ||
        is_real(got[k]) != is_real(expected[k])) {
      note({kInfinity,
            fmt::format("got {}, expected {}", got[k].defined() ? shape_text(got[k]) : "nothing",
                        shape_text(expected[k]))},
           name);
      continue;
    }
    if (expected[k].numel() == 0) continue;
    // Model by model: the copies in float64 of one are small, those of all might not fit.
    for (int64_t i = 0; i < expected[k].size(0); ++i) {
      const Tensor g = got[k][i], e = expected[k][i];
      note(is_real(e) ? compare_reals(g, e)
                      : compare_integers(g, e, own.empty() ? Tensor() : own[k][i]),
           fmt::format("{} of model {}", name, i));
    }
  }
  return worst;
}

std::string compare_shapes(const std::vector<std::string>& names, const Tensors& got,
                           const Tensors& expected) {
  if (got.size() != expected.size())
    return fmt::format("results: got {}, expected {}", got.size(), expected.size());
  for (size_t k = 0; k < got.size(); ++k) {
    const std::string have = got[k].defined() ? shape_text(got[k]) : "nothing";
    if (have != shape_text(expected[k]))
      return fmt::format("{}: got {}, expected {}", names[k], have, shape_text(expected[k]));
  }
  return "";
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  if (a.numel() == 0) return true;
  // As bytes: NaN equals itself, and 0 is not -0.
  const auto bytes = [](const Tensor& tensor) {
    return plain(tensor).contiguous().flatten().view(at::kByte);
  };
  return at::equal(bytes(a), bytes(b));
}

bool same_bits_but(const Tensors& a, const Tensors& b, int64_t i) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].sizes() != b[k].sizes()) return false;
    const int64_t n = a[k].size(0);
    if (!same_bits(a[k].narrow(0, 0, i), b[k].narrow(0, 0, i))) return false;
    if (!same_bits(a[k].narrow(0, i + 1, n - i - 1), b[k].narrow(0, i + 1, n - i - 1)))
      return false;
  }
  return true;
}

std::vector<int64_t> models_to_poison(int64_t n) {
  if (n > 4) return {0, n / 2, n - 1};
  std::vector<int64_t> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

Ensemble poison(const Ensemble& ensemble, int64_t i) {
  Ensemble poisoned = ensemble;
  for (size_t k = 0; k < poisoned.tensors.size(); ++k) {
    Tensor& tensor = poisoned.tensors[k];
    if (ensemble.shared[k] || !is_real(tensor)) continue;
    tensor = tensor.clone();
    tensor.select(0, i).fill_(std::numeric_limits<double>::quiet_NaN());
  }
  return poisoned;
}

Tensor rotation(int64_t n) { return at::arange(n, at::kLong).roll(-1); }

Ensemble permute(const Ensemble& ensemble, const Tensor& permutation) {
  Ensemble permuted = ensemble;
  for (size_t k = 0; k < permuted.tensors.size(); ++k)
    if (!ensemble.shared[k]) permuted.tensors[k] = permute({ensemble.tensors[k]}, permutation)[0];
  return permuted;
}

Tensors permute(const Tensors& results, const Tensor& permutation) {
  Tensors permuted;
  for (const Tensor& tensor : results)
    permuted.push_back(tensor.index_select(0, permutation.to(tensor.device())));
  return permuted;
}

}  // namespace wide::detail
