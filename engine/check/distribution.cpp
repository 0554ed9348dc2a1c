#include "engine/check/distribution.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "engine/error.h"
#include "engine/measure/statistics.h"

namespace wide::detail {
namespace {

constexpr double kZeroErrors = 5;  // standard errors for shares of zeros
constexpr double kSpreadErrors = 6;
constexpr double kLeastSpread = 0.1;

std::vector<double> column(const Tensor& statistic, int64_t model) {
  const Tensor values = statistic.select(1, model).contiguous();
  const double* data = values.const_data_ptr<double>();
  return {data, data + values.numel()};
}

/// One result, `[seeds, N, elements]`, of candidate and separate models.
class Distributions {
 public:
  Distributions(const Tensor& candidate, const Tensor& separate, double tolerance, double errors)
      : candidate_(candidate), separate_(separate), tolerance_(tolerance), errors_(errors) {
    const auto share = [](const Tensor& drawn) { return drawn.eq(0).to(at::kDouble).mean(2); };
    zeros_ = {"share of zeros", share(candidate), share(separate)};
    const auto [got, expected] = projections();
    moments_ = {{"projection on the mean", got, expected},
                {"mean", candidate.mean(2), separate.mean(2)},
                {"mean magnitude", candidate.abs().mean(2), separate.abs().mean(2)},
                {"mean square", candidate.square().mean(2), separate.square().mean(2)}};
  }

  std::string difference(bool every_element) const {
    for (int64_t i = 0; i < candidate_.size(1); ++i) {
      std::string text = finite(i);
      if (text.empty()) text = zeros(i);
      if (text.empty()) text = moments(i);
      if (text.empty() && every_element) text = elements(i);
      if (!text.empty()) return fmt::format(" of model {}: {}", i, text);
    }
    const std::string text = every_element ? spread() : "";
    return text.empty() ? "" : ": " + text;
  }

 private:
  /// A statistic of both sides with one number for each seed and model, `[seeds, N]`.
  struct Statistic {
    const char* name = "";
    Tensor got, expected;
  };

  std::string finite(int64_t i) const {
    const bool lost = candidate_.select(1, i).isfinite().logical_not().any().item<bool>() &&
                      separate_.select(1, i).isfinite().all().item<bool>();
    return lost ? "values not finite" : "";
  }

  std::string zeros(int64_t i) const {
    Mean got = mean_of(column(zeros_.got, i));
    Mean expected = mean_of(column(zeros_.expected, i));
    // All seeds may agree by chance: then the binomial error is used instead of the observed one.
    const double pooled = (got.value + expected.value) / 2;
    const auto draws = static_cast<double>(candidate_.size(0) * candidate_.size(2));
    const double binomial = std::sqrt(pooled * (1 - pooled) / draws);
    got.error = std::max(got.error, binomial);
    expected.error = std::max(expected.error, binomial);
    if (distance_in_errors(got, expected) <= kZeroErrors) return "";
    return fmt::format("{} {:.3g}, expected {:.3g}", zeros_.name, got.value, expected.value);
  }

  // Projections on the separate models' mean reveal wrong weights if single elements are too noisy.
  std::pair<Tensor, Tensor> projections() const {
    const auto count = static_cast<double>(separate_.size(0));
    const Tensor direction = separate_.mean(0, /*keepdim=*/true);
    const Tensor norm = direction.square().sum(2).clamp_min(1e-300);
    const Tensor got = (candidate_ * direction).sum(2) / norm;
    // A run's own contribution to the direction is left out, as it would correlate with itself.
    const Tensor own = separate_.square().sum(2);
    const Tensor all = (separate_ * direction).sum(2);
    return {got, (count * all - own) / (count - 1) / norm};
  }

  std::string moments(int64_t i) const {
    for (const Statistic& statistic : moments_) {
      const Mean a = mean_of(column(statistic.got, i)), b = mean_of(column(statistic.expected, i));
      const double slack = tolerance_ * std::max(std::abs(a.value), std::abs(b.value));
      if (std::abs(a.value - b.value) <= slack || distance_in_errors(a, b) <= errors_) continue;
      return fmt::format("{} over seeds {:.4g}, expected {:.4g}", statistic.name, a.value, b.value);
    }
    return "";
  }

  // One mask instead of many independent ones keeps all means, but makes the outputs vary too much
  // together. Tested over all models, as one alone would reveal only a factor of twelve.
  std::string spread() const {
    // Signs only: with the means' sizes, a few large elements would hide the common variation.
    const Tensor signs = separate_.mean(0, /*keepdim=*/true).sign();
    const Tensor got = (candidate_ * signs).sum(2), expected = (separate_ * signs).sum(2);
    double sum = 0;
    int64_t models = 0;
    for (int64_t i = 0; i < candidate_.size(1); ++i) {
      const std::vector<double> a = column(got, i), b = column(expected, i);
      if (!rich(a) || !rich(b)) continue;
      sum += std::log(mean_of(a).error / mean_of(b).error);
      ++models;
    }
    // Half the logarithm of a ratio of variances has the variance 1 / (degrees of freedom). The
    // signs come from the separate models' own draws, which changes their variation by up to 2 %.
    const auto freedom = static_cast<double>(models * (candidate_.size(0) - 1));
    if (models == 0) return "";
    const double bound = std::max(kSpreadErrors / std::sqrt(freedom), kLeastSpread);
    if (std::abs(sum) / static_cast<double>(models) <= bound) return "";
    return fmt::format("standard deviation over seeds is {:.2g} times the expected one",
                       std::exp(sum / static_cast<double>(models)));
  }

  // Whether values have a usable variance, unlike those of rare events and rounding.
  bool rich(std::vector<double> values) const {
    const Mean mean = mean_of(values);
    const auto count = static_cast<std::ptrdiff_t>(values.size());
    std::ranges::sort(values);
    const auto distinct = std::unique(values.begin(), values.end()) - values.begin();
    return distinct >= count / 2 && mean.error > tolerance_ * std::abs(mean.value);
  }

  std::string elements(int64_t i) const {
    const Tensor got = candidate_.select(1, i), expected = separate_.select(1, i);
    const Tensor difference = (got.mean(0) - expected.mean(0)).abs();
    const auto seeds = static_cast<double>(got.size(0));
    // The variance includes the difference itself, as elements that agree in all seeds by chance
    // would have none.
    const Tensor error = (at::cat({got, expected}).var(0) * (2 / seeds)).sqrt();
    const double largest = expected.abs().max().item<double>();
    const double scale = largest > 0 ? largest : 1;
    const Tensor excess = difference - errors_ * error - tolerance_ * scale;
    const int64_t worst = excess.argmax().item<int64_t>();
    if (excess[worst].item<double>() <= 0) return "";
    return fmt::format("mean of an element over seeds {:.4g}, expected {:.4g}",
                       got.mean(0)[worst].item<double>(), expected.mean(0)[worst].item<double>());
  }

  const Tensor &candidate_, &separate_;
  double tolerance_, errors_;
  Statistic zeros_;
  std::vector<Statistic> moments_;
};

}  // namespace

std::string compare_distributions(const Tensor& candidate, const Tensor& separate, double tolerance,
                                  bool every_element, double errors) {
  return Distributions(candidate, separate, tolerance, errors).difference(every_element);
}

double error_of_constants(const Tensor& candidate, const Tensor& separate) {
  const Tensor constant = candidate.var(0).eq(0).logical_and(separate.var(0).eq(0));
  const Tensor largest = separate[0].abs().amax(1, /*keepdim=*/true);
  const Tensor scale = at::where(largest.gt(0), largest, at::ones({}, largest.options()));
  const Tensor error = (candidate[0] - separate[0]).abs() / scale;
  return at::where(constant, error, at::zeros({}, error.options())).max().item<double>();
}

}  // namespace wide::detail
