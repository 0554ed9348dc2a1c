#include "engine/check/check_detail.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/error.h"
#include "engine/machine/large_pages.h"

namespace wide::detail {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Complex tensors as real pairs, for comparisons.
Tensor plain(const Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
}

bool is_real(const Tensor& tensor) { return tensor.is_floating_point() || tensor.is_complex(); }

/// Sums of one pass over both tensors.
struct Scan {
  double difference = 0, scale = 0;  // largest |got - expected| and |expected|, of finite numbers
  int64_t broken = 0;                // numbers that are not finite as in the reference
};

template <typename Got>
Scan scan(const Got* got, const double* expected, int64_t count) {
  Scan all;
  for (int64_t begin = 0; begin < count; begin += 4096) {
    const int64_t end = std::min(count, begin + 4096);
    double difference = 0, scale = 0, finite = 0;  // finite: sum of x * 0, NaN if any is not
    for (int64_t i = begin; i < end; ++i) {
      const auto g = static_cast<double>(got[i]);
      difference = std::max(difference, std::abs(g - expected[i]));
      scale = std::max(scale, std::abs(expected[i]));
      finite += 0 * g + 0 * expected[i];
    }
    if (finite == 0) {
      all.difference = std::max(all.difference, difference);
      all.scale = std::max(all.scale, scale);
      continue;
    }
    for (int64_t i = begin; i < end; ++i) {
      const auto g = static_cast<double>(got[i]);
      const double e = expected[i];
      if (!std::isfinite(e)) {
        // NaN for NaN, and the same infinity as in the reference, are no difference.
        all.broken += !(g == e || (std::isnan(g) && std::isnan(e)));
      } else if (!std::isfinite(g)) {
        ++all.broken;
      } else {
        all.difference = std::max(all.difference, std::abs(g - e));
        all.scale = std::max(all.scale, std::abs(e));
      }
    }
  }
  return all;
}

/// Compares one model's output. An infinite error stands for a difference such as NaN.
Deviation compare_reals(const Tensor& got, const Tensor& expected) {
  // Complex numbers become pairs of real ones.
  const auto reals = [](const Tensor& t) {
    const Tensor own = plain(t).resolve_conj().cpu().contiguous();
    return own.is_complex() ? at::view_as_real(own) : own;
  };
  Tensor g = reals(got);
  if (g.scalar_type() != at::kFloat) g = g.to(at::kDouble);
  const Tensor e = reals(expected).to(at::kDouble);
  const Scan found = g.scalar_type() == at::kFloat
                         ? scan(g.const_data_ptr<float>(), e.const_data_ptr<double>(), e.numel())
                         : scan(g.const_data_ptr<double>(), e.const_data_ptr<double>(), e.numel());
  if (found.broken > 0)
    return {kInfinity,
            fmt::format("{} of {} values not finite as the reference is", found.broken, e.numel())};
  const double error = found.scale > 0 ? found.difference / found.scale : found.difference;
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
    names.push_back("update of " + single.value(update.target).name);
  return names;
}

Deviation compare(const std::vector<std::string>& names, const Tensors& got,
                  const Tensors& expected, const Tensors& own, const Tensor& permutation) {
  const int64_t* order = permutation.defined() ? permutation.const_data_ptr<int64_t>() : nullptr;
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
    // Model by model, as float64 copies of all might not fit into memory.
    const int64_t n = expected[k].size(0);
    std::vector<Deviation> found(static_cast<size_t>(n));
    const auto look = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = order ? order[i] : i;
        const Tensor g = got[k][i], e = expected[k][at];
        found[static_cast<size_t>(i)] =
            is_real(e) ? compare_reals(g, e)
                       : compare_integers(g, e, own.empty() ? Tensor() : own[k][at]);
      }
    };
    // Small tensors are compared faster than threads are started.
    if (got[k].is_cpu() && expected[k].numel() > 32768)
      at::parallel_for(0, n, 1, look);
    else
      look(0, n);
    for (int64_t i = 0; i < n; ++i)
      note(found[static_cast<size_t>(i)], fmt::format("{} of model {}", name, i));
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
  // Compared as bytes: NaN equals itself, and 0 differs from -0.
  const Tensor x = plain(a).cpu().contiguous(), y = plain(b).cpu().contiguous();
  const auto* bytes = static_cast<const char*>(x.const_data_ptr());
  const auto* others = static_cast<const char*>(y.const_data_ptr());
  std::atomic<bool> same{true};
  at::parallel_for(0, static_cast<int64_t>(x.nbytes()), 1 << 18, [&](int64_t begin, int64_t end) {
    if (std::memcmp(bytes + begin, others + begin, static_cast<size_t>(end - begin)) != 0)
      same = false;
  });
  return same;
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

Poisoned::Poisoned(const Ensemble& ensemble, int64_t i) : ensemble_(ensemble) {
  const at::NoGradGuard guard;
  for (size_t k = 0; k < ensemble.tensors.size(); ++k) {
    Tensor& tensor = ensemble_.tensors[k];
    if (ensemble.shared[k] || !is_real(tensor)) continue;
    // If models share memory, or the tensor cannot be written, uses a copy.
    if (!tensor.is_contiguous() || tensor.is_inference())
      tensor = tensor.clone(at::MemoryFormat::Contiguous);
    const Tensor row = tensor.select(0, i);
    rows_.emplace_back(row, row.clone());
    row.fill_(std::numeric_limits<double>::quiet_NaN());
  }
}

Poisoned::~Poisoned() {
  const at::NoGradGuard guard;
  // In reverse: of two tensors in one memory, the second was saved when the first was NaN already.
  for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) row->first.copy_(row->second);
}

Tensor rotation(int64_t n) { return at::arange(n, at::kLong).roll(-1); }

Ensemble permute(const Ensemble& ensemble, const Tensor& permutation) {
  Ensemble permuted = ensemble;
  for (size_t k = 0; k < permuted.tensors.size(); ++k) {
    if (ensemble.shared[k]) continue;
    const Tensor& tensor = ensemble.tensors[k];
    Tensor other = empty_to_keep(tensor.sizes(), tensor.options());
    permuted.tensors[k] = at::index_select_out(other, tensor, 0, permutation.to(tensor.device()));
  }
  return permuted;
}

}  // namespace wide::detail
