#include "data/plot/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace wide {
namespace {

/// All values m·10^k of the mantissas inside the axis.
std::vector<double> inside(const LogScale& scale, const std::vector<double>& mantissas) {
  std::vector<double> values;
  const int first = static_cast<int>(std::floor(std::log10(scale.low)));
  const int last = static_cast<int>(std::ceil(std::log10(scale.high)));
  for (int k = first; k <= last; ++k)
    for (const double m : mantissas) {
      const double value = m * std::pow(10.0, k);
      // Rounding must not lose a tick that lies exactly at an end of the axis.
      if (value >= scale.low * (1 - 1e-9) && value <= scale.high * (1 + 1e-9))
        values.push_back(value);
    }
  return values;
}

double closest_px(const LogScale& scale, const std::vector<double>& values) {
  double closest = 1e9;
  for (size_t i = 1; i < values.size(); ++i)
    closest = std::min(closest, std::abs(scale.at(values[i]) - scale.at(values[i - 1])));
  return closest;
}

bool power_of_two(double n) {
  int exponent = 0;
  return std::frexp(n, &exponent) == 0.5;
}

/// The label of N: "4", "1024", "10k", "2M".
std::string n_label(double n) {
  if (n < 1e4) return fmt::format("{:.0f}", n);
  if (n < 1e6) return short_number(n / 1e3) + "k";
  if (n < 1e9) return short_number(n / 1e6) + "M";
  return fmt::format("{:.0e}", n);
}

}  // namespace

double LogScale::at(double value) const {
  const double share = std::log(value / low) / std::log(high / low);
  return from_px + share * (to_px - from_px);
}

double LogScale::value_at(double px) const {
  return low * std::pow(high / low, (px - from_px) / (to_px - from_px));
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (size >= 1e5 || (size > 0 && size < 1e-3)) return fmt::format("{:.1e}", value);
  std::string text = fmt::format("{:.{}f}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  if (size < 0.0995 && size > 0) text = fmt::format("{:.3f}", value);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::vector<Tick> value_ticks(const LogScale& scale, double gap_px,
                              const std::function<std::string(double)>& label) {
  static const std::vector<std::vector<double>> kDensities = {
      {1, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 9.5},
      {1, 1.1, 1.2, 1.3, 1.5, 1.7, 2, 2.5, 3, 4, 5, 6, 7, 8, 9},
      {1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8},
      {1, 1.5, 2, 3, 4, 6, 8},
      {1, 2, 5},
      {1, 3},
      {1}};
  std::vector<double> values;
  for (const auto& mantissas : kDensities) {
    values = inside(scale, mantissas);
    if (closest_px(scale, values) >= gap_px) break;
  }
  // If even those are too close, over very many decades, removes every other one.
  while (values.size() > 2 && closest_px(scale, values) < gap_px)
    for (size_t i = 1; i < values.size(); ++i)
      values.erase(values.begin() + static_cast<std::ptrdiff_t>(i));
  std::vector<Tick> ticks;
  for (const double value : values) ticks.push_back({value, label(value)});
  return ticks;
}

std::vector<Tick> decade_ticks(const LogScale& scale, double gap_px) {
  const int first = static_cast<int>(std::ceil(std::log10(scale.low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(scale.high) + 1e-9));
  const double decade_px = std::abs(scale.at(10 * scale.low) - scale.at(scale.low));
  const int step = std::max(1, static_cast<int>(std::ceil(gap_px / std::max(decade_px, 1e-3))));
  std::vector<Tick> ticks;
  for (int k = last; k >= first; k -= step)
    ticks.push_back({std::pow(10.0, k), fmt::format("1e{}", k)});
  return ticks;
}

std::vector<Tick> n_ticks(const LogScale& scale, const std::vector<double>& ns, double digit_px) {
  std::vector<Tick> ticks;
  for (const double n : ns) ticks.push_back({n, ""});
  const auto importance = [&](size_t i) {
    if (i == 0 || i + 1 == ticks.size()) return 0;
    return power_of_two(ticks[i].value) ? 1 : 2;
  };
  std::vector<size_t> order(ticks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return importance(a) < importance(b); });
  std::vector<std::pair<double, double>> taken;  // ranges of labels in pixels
  for (const size_t i : order) {
    const std::string label = n_label(ticks[i].value);
    const double middle = scale.at(ticks[i].value);
    const double half = (static_cast<double>(label.size()) + 1) * digit_px / 2;
    const bool fits = std::none_of(taken.begin(), taken.end(), [&](const auto& t) {
      return middle - half < t.second && middle + half > t.first;
    });
    if (!fits) continue;
    ticks[i].label = label;
    taken.emplace_back(middle - half, middle + half);
  }
  return ticks;
}

std::vector<Tick> linear_ticks(double low, double high, int most) {
  const double least = (high - low) / most, power = std::pow(10.0, std::floor(std::log10(least)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= least * (1 - 1e-9)) step = factor * power;
  const int digits = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
  std::vector<Tick> ticks;
  const auto first = static_cast<int64_t>(std::ceil(low / step - 1e-9));
  const auto last = static_cast<int64_t>(std::floor(high / step + 1e-9));
  for (int64_t k = first; k <= last; ++k) {
    const double value = double(k) * step;
    ticks.push_back({value, std::abs(value) < 1e6 && digits < 8
                                ? fmt::format("{:.{}f}", value, digits)
                                : fmt::format("{:g}", value)});
  }
  return ticks;
}

}  // namespace wide
