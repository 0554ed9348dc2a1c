#include "data/reports/sweep/compare/compare_noise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "engine/measure/statistics.h"

namespace wide {
namespace {

constexpr int kNoiseResamples = 200;  // enough for a standard error; interval ends need more
constexpr size_t kFewestSamples = 3;
/// Assumed noise between two sweeps, and how many observed changes it counts as.
constexpr double kGuess = 0.025, kGuessWeight = 5;

/// The log of the samples' median, and of the median of each bootstrap resample.
struct Medians {
  double value = 0;
  std::vector<double> drawn;
};

double log_median(std::vector<double>& values) {
  const auto half = static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), values.begin() + half, values.end());
  const double high = values[static_cast<size_t>(half)];
  if (values.size() % 2) return std::log(high);
  return std::log((high + *std::max_element(values.begin(), values.begin() + half)) / 2);
}

/// Resamples blocks of consecutive samples. `draws` are positions in 0..1, the same for all
/// contenders of a case, so that samples of one round stay together.
Medians medians_of(const std::vector<double>& samples, const std::vector<float>& draws) {
  Medians m;
  std::vector<double> values = samples;
  const size_t count = samples.size();
  m.value = log_median(values);
  const size_t block =
      std::max<size_t>(1, static_cast<size_t>(std::cbrt(static_cast<double>(count))));
  size_t next = 0;
  for (int r = 0; r < kNoiseResamples; ++r) {
    for (size_t i = 0; i < count;) {
      const double position = static_cast<double>(draws[next++ % draws.size()]);
      const auto start = static_cast<size_t>(position * static_cast<double>(count));
      for (size_t k = 0; k < block && i < count; ++k, ++i) values[i] = samples[(start + k) % count];
    }
    m.drawn.push_back(log_median(values));
  }
  return m;
}

bool usable(const std::vector<double>& samples) {
  return samples.size() >= kFewestSamples &&
         std::all_of(samples.begin(), samples.end(),
                     [](double s) { return std::isfinite(s) && s > 0; });
}

const Trial* trial_of(const Case& c, const std::string& name) {
  for (const Trial& t : c.trials)
    if (t.strategy == name) return &t;
  return nullptr;
}

const Timing* baseline_of(const Case& c, const std::string& name) {
  for (const Timing& t : c.baselines)
    if (t.name == name) return &t;
  return nullptr;
}

double spread(const std::vector<double>& values) {
  double mean = 0, squares = 0;
  for (const double v : values) mean += v / static_cast<double>(values.size());
  for (const double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

}  // namespace

std::vector<Change> changes_of(const Case& before, const Case& after,
                               const std::vector<std::string>& names, uint64_t seed,
                               std::vector<double>* apart) {
  std::mt19937_64 generator(seed);
  std::vector<float> draws[2];
  for (auto& list : draws) {
    list.resize(4096);
    for (float& d : list) d = static_cast<float>(generator() >> 40) / static_cast<float>(1 << 24);
  }
  const auto drawn = [&](const Timing& a, const Timing& b) {
    return std::pair{medians_of(a.samples_ns, draws[0]), medians_of(b.samples_ns, draws[1])};
  };
  // How much slower each baseline became shows how the machine changed between the sweeps.
  std::vector<std::pair<Medians, Medians>> baselines;
  for (const Timing& a : before.baselines) {
    const Timing* b = baseline_of(after, a.name);
    if (b && usable(a.samples_ns) && usable(b->samples_ns)) baselines.push_back(drawn(a, *b));
  }
  std::vector<double> slower(baselines.size()), machine_drawn(kNoiseResamples);
  for (size_t i = 0; i < baselines.size(); ++i)
    slower[i] = baselines[i].second.value - baselines[i].first.value;
  for (size_t i = 1; i < slower.size(); ++i) apart->push_back(slower[i] - slower[0]);
  const double machine = median(slower);
  const double disagreement = slower.size() > 1 ? spread(slower) : 0;
  for (size_t r = 0; r < kNoiseResamples && !baselines.empty(); ++r) {
    for (size_t i = 0; i < baselines.size(); ++i)
      slower[i] = baselines[i].second.drawn[r] - baselines[i].first.drawn[r];
    machine_drawn[r] = median(slower);
  }
  std::vector<Change> changes;
  for (const std::string& name : names) {
    Change change;
    change.group = after.target + "/" + name + " " + after.dtype + " " + after.device + " " +
                   after.mode + " " + after.phase;
    const Trial *a = trial_of(before, name), *b = trial_of(after, name);
    if (a && b && !baselines.empty() && usable(a->timing.samples_ns) &&
        usable(b->timing.samples_ns)) {
      const auto [x, y] = drawn(a->timing, b->timing);
      change.log = x.value - y.value + machine;
      std::vector<double> logs(kNoiseResamples);
      for (size_t r = 0; r < kNoiseResamples; ++r)
        logs[r] = x.drawn[r] - y.drawn[r] + machine_drawn[r];
      change.within = spread(logs);
      change.machine = disagreement;
      change.known = true;
    }
    changes.push_back(std::move(change));
  }
  return changes;
}

Noise noise_of(const std::vector<Change>& changes, const std::vector<double>& apart) {
  std::map<std::string, std::vector<double>> groups;
  for (const Change& c : changes)
    if (c.known) groups[c.group].push_back(c.log);
  std::vector<double> scatter = apart;
  for (const auto& [name, logs] : groups) {
    if (logs.size() < 2) continue;
    const double middle = median(logs), count = static_cast<double>(logs.size());
    // A median of few values lies close to them, so their scatter is scaled up.
    for (const double log : logs)
      scatter.push_back((log - middle) * std::sqrt(count / (count - 1)));
  }
  for (double& s : scatter) s = std::abs(s);
  // The standard deviation of a normal distribution with this median of absolute values, or with
  // this 80 % quantile: the tails are heavier than normal, and up to a fifth may be real changes.
  const double seen = std::max(quantile(scatter, 0.5) / 0.6745, quantile(scatter, 0.8) / 1.2816);
  const auto count = static_cast<double>(scatter.size());
  Noise noise;
  noise.scale =
      std::sqrt((kGuessWeight * kGuess * kGuess + count * seen * seen) / (kGuessWeight + count));
  noise.freedom = std::clamp(count, 10.0, 30.0);
  return noise;
}

double student_quantile(double probability, double freedom) {
  // Substituting t = sqrt(freedom) tan(angle) turns the density into a power of the cosine.
  const auto area = [freedom](double from, double to) {
    constexpr int kSteps = 400;
    const double step = (to - from) / kSteps;
    double sum = 0;
    for (int i = 0; i <= kSteps; ++i)
      sum += std::pow(std::max(0.0, std::cos(from + i * step)), freedom - 1) *
             (i == 0 || i == kSteps ? 1
              : i % 2               ? 4
                                    : 2);
    return sum * step / 3;
  };
  const double whole = area(0, M_PI / 2);
  double low = 0, high = M_PI / 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (area(middle, M_PI / 2) / whole > probability ? low : high) = middle;
  }
  return std::sqrt(freedom) * std::tan(low);
}

}  // namespace wide
