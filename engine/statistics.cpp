#include "engine/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace wide {
namespace {

constexpr size_t kFewSamples = 40;

// Reorders `values`; the caller owns the scratch, since the bootstrap calls this thousands of
// times.
double median_in_place(std::vector<double>& values) {
  const size_t half = values.size() / 2;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(half);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// An unbiased index below `bound`, the same with every standard library (distributions are not).
size_t draw_index(std::mt19937_64& generator, size_t bound) {
  const uint64_t range = bound;
  const uint64_t limit = std::numeric_limits<uint64_t>::max() / range * range;
  uint64_t draw = generator();
  while (draw >= limit) draw = generator();
  return static_cast<size_t>(draw % range);
}

double ratio(double a, double b) { return b > 0 ? a / b : std::numeric_limits<double>::infinity(); }

}  // namespace

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double fraction = position - static_cast<double>(below);
  return values[below] + fraction * (values[above] - values[below]);
}

double median(std::vector<double> values) { return values.empty() ? 0 : median_in_place(values); }

Interval ratio_of_medians(const std::vector<double>& a, const std::vector<double>& b, int resamples,
                          uint64_t seed, double level) {
  const size_t common = std::min(a.size(), b.size());
  if (common == 0) return {};
  const auto length = static_cast<std::ptrdiff_t>(common);
  std::vector<double> drawn_a(a.begin(), a.begin() + length);
  std::vector<double> drawn_b(b.begin(), b.begin() + length);
  Interval interval;
  interval.value = ratio(median_in_place(drawn_a), median_in_place(drawn_b));

  // What disturbs a machine lasts for some rounds: neighbours are drawn together, else intervals
  // come out too narrow. The usual cube root; a few samples have no neighbours to spare.
  const size_t block =
      common < kFewSamples ? 1 : static_cast<size_t>(std::cbrt(static_cast<double>(common)));
  std::mt19937_64 generator(seed);
  std::vector<double> ratios(static_cast<size_t>(resamples));
  for (double& r : ratios) {
    for (size_t i = 0; i < common;) {
      const size_t start = draw_index(generator, common);
      for (size_t k = 0; k < block && i < common; ++k, ++i) {
        const size_t from = (start + k) % common;
        drawn_a[i] = a[from];
        drawn_b[i] = b[from];
      }
    }
    r = ratio(median_in_place(drawn_a), median_in_place(drawn_b));
  }
  interval.low = quantile(ratios, (1 - level) / 2);
  interval.high = quantile(std::move(ratios), (1 + level) / 2);
  return interval;
}

Mean mean_of(const std::vector<double>& values) {
  Mean mean;
  if (values.empty()) return mean;
  const auto count = static_cast<double>(values.size());
  for (double v : values) mean.value += v / count;
  if (values.size() < 2) return mean;
  double squares = 0;
  for (double v : values) squares += (v - mean.value) * (v - mean.value);
  mean.error = std::sqrt(squares / (count - 1) / count);
  return mean;
}

double distance_in_errors(const Mean& a, const Mean& b) {
  const double difference = std::abs(a.value - b.value);
  const double error = std::hypot(a.error, b.error);
  if (difference == 0) return 0;
  return error > 0 ? difference / error : std::numeric_limits<double>::infinity();
}

}  // namespace wide
