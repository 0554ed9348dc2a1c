#include "engine/measure/measure.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "engine/device.h"
#include "engine/machine/clock.h"
#include "engine/measure/statistics.h"

namespace wide {
namespace {

constexpr double kWarmupNs = 20e6;
constexpr double kLongNs = 1e9;  // a first call this long is warm-up enough
constexpr int kColdCalls = 5;
constexpr int64_t kMostCalls = 1 << 22;  // in a sample, even if it is then shorter than wanted
constexpr int kResamples = 2000;
constexpr int kCheckResamples = 500;  // for deciding when to stop, not for what is reported
constexpr double kSameBand = 0.03;
constexpr double kSurely = 1.432;  // from a 95 % interval to a 99.5 % one, in logarithms

constexpr double kRefillNs = 2e7;  // for a call this long, refilling the caches is negligible

/// One contender on its way through warm-up, calibration and rounds.
class Runner {
 public:
  Runner(const Contender& contender, const MeasureOptions& options)
      : contender_(contender), options_(options) {
    timing_.name = contender.name;
    timing_.kind = contender.kind;
    if (DeviceRuntime* runtime = device_runtime(contender.device.type()))
      timer_ = runtime->timer(contender.device);
  }

  void warm_up() {
    timing_.peak_bytes = count_peak_bytes(contender_.device, [&] {
      const double start = now();
      contender_.call();
      synchronize(contender_.device);
      timing_.first_call_ns = now() - start;
    });
    // The shortest call seen decides how many make a sample, so that samples are long enough also
    // when calls get faster. Batches double, so that reading the clock takes a vanishing part.
    double shortest = timing_.first_call_ns;
    int64_t batch = 1;
    const bool warmed = contender_.has_run || shortest > kLongNs;
    for (double warm = warmed ? shortest : 0; warm < kWarmupNs; batch *= 2) {
      const double elapsed = run(batch);
      shortest = std::min(shortest, elapsed / static_cast<double>(batch));
      warm += std::max(elapsed, 1.0);
    }
    const double needed = 1.1 * options_.min_sample_ns / std::max(shortest, 1.0);
    timing_.calls_per_sample = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(needed)));
    shortest_ns_ = shortest;
    if (timer_) time_cold();
  }

  void take_sample() {
    int64_t calls = 0;
    double elapsed = 0;
    // Make the caches warm again, as the previous contender has left its own data there. A long
    // call refills them in a small part of its time.
    if (!timer_ && shortest_ns_ < kRefillNs) rewarm();
    // Repeats only if calls have become faster than during warm-up, or if the warm-up call was
    // disturbed; later samples then consist of more calls.
    for (;;) {
      elapsed += run(timing_.calls_per_sample);
      calls += timing_.calls_per_sample;
      if (elapsed >= options_.min_sample_ns || calls >= kMostCalls) break;
      timing_.calls_per_sample *= 2;
    }
    timing_.samples_ns.push_back(elapsed / static_cast<double>(calls));
  }

  /// Times calls with packing: `min_samples` of them, or fewer where they would take more than a
  /// quarter of the contender's budget.
  void time_with_packing() {
    if (!contender_.call_with_packing) return;
    const double begun = now();
    contender_.call_with_packing();
    synchronize(contender_.device);
    const double first = std::max(now() - begun, 1.0);
    const auto calls = std::clamp(static_cast<int64_t>(options_.min_sample_ns / first) + 1,
                                  int64_t{1}, timing_.calls_per_sample);
    const auto wanted = static_cast<size_t>(std::max(options_.min_samples, 1));
    std::vector<double> samples;
    while (samples.size() < wanted &&
           (samples.empty() || now() - begun < options_.budget_s * 1e9 / 4)) {
      const double elapsed = run(contender_.call_with_packing, calls);
      samples.push_back(elapsed / static_cast<double>(calls));
    }
    timing_.with_packing_ns = median(std::move(samples));
  }

  /// Whether the contender has its samples and has used up its budget.
  bool retired() const { return has_enough() && spent_ >= options_.budget_s * 1e9; }
  bool has_enough() const {
    return timing_.samples_ns.size() >= static_cast<size_t>(std::max(options_.min_samples, 1));
  }
  Timing& timing() { return timing_; }
  const Timing& timing() const { return timing_; }

 private:
  double now() const { return options_.now_ns ? options_.now_ns() : now_ns(); }

  void rewarm() {
    const double start = now();
    contender_.call();
    spent_ += now() - start;
  }

  double run(int64_t calls) { return run(contender_.call, calls); }

  double run(const std::function<void()>& call, int64_t calls) {
    const double start = now();
    double device_ns = 0;
    if (timer_) timer_->start();
    for (int64_t i = 0; i < calls; ++i) call();
    if (timer_) device_ns = timer_->stop_ns();
    const double elapsed = now() - start;
    spent_ += elapsed;
    return timer_ ? device_ns : elapsed;
  }

  // On a device, consecutive calls overlap their launches with earlier work. This times a single
  // call, which cannot.
  void time_cold() {
    std::vector<double> alone;
    for (int i = 0; i < kColdCalls; ++i) {
      synchronize(contender_.device);
      const double start = now();
      contender_.call();
      synchronize(contender_.device);
      alone.push_back(now() - start);
      spent_ += alone.back();
    }
    timing_.cold_ns = median(std::move(alone));
  }

  const Contender& contender_;
  const MeasureOptions& options_;
  Timing timing_;
  std::unique_ptr<DeviceTimer> timer_;  // of a device other than the CPU
  double spent_ = 0;
  double shortest_ns_ = 0;
};

/// The pairs whose ratio is reported: every candidate with the loop and with the fastest baseline.
/// If there are no baselines or no candidates, the first contender is used instead.
std::vector<std::pair<size_t, size_t>> pairs_of_interest(const std::vector<Runner>& runners) {
  std::vector<size_t> anchors, others;
  size_t fastest = runners.size();
  double fastest_ns = 0;
  for (size_t i = 0; i < runners.size(); ++i) {
    const Timing& timing = runners[i].timing();
    if (timing.kind != "baseline") {
      others.push_back(i);
      continue;
    }
    if (timing.name == "loop") anchors.push_back(i);
    const double middle = median(timing.samples_ns);
    if (fastest == runners.size() || middle < fastest_ns) {
      fastest = i;
      fastest_ns = middle;
    }
  }
  if (fastest == runners.size()) fastest = 0;
  if (anchors.empty() || anchors.front() != fastest) anchors.push_back(fastest);
  if (others.empty()) {
    others.resize(runners.size());
    std::iota(others.begin(), others.end(), size_t{0});
  }
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t a : anchors)
    for (size_t o : others)
      if (a != o) pairs.emplace_back(a, o);
  if (pairs.empty()) pairs.emplace_back(0, 0);
  return pairs;
}

bool narrow_enough(const std::vector<Runner>& runners, const MeasureOptions& options) {
  for (const auto& [anchor, other] : pairs_of_interest(runners)) {
    // A ratio's interval cannot become narrower once one side takes no further samples.
    if (runners[anchor].retired() || runners[other].retired()) continue;
    const std::vector<double>& samples = runners[other].timing().samples_ns;
    const std::vector<double> constant(samples.size(), 1.0);
    const Interval interval =
        ratio_of_medians(anchor == other ? constant : runners[anchor].timing().samples_ns, samples,
                         kCheckResamples, options.seed);
    const double halfwidth = (interval.high - interval.low) / 2;
    if (!(halfwidth <= options.ratio_halfwidth * interval.value)) return false;
  }
  return true;
}

}  // namespace

std::vector<Timing> measure(const std::vector<Contender>& contenders,
                            const MeasureOptions& options) {
  std::vector<Runner> runners;
  runners.reserve(contenders.size());
  for (const Contender& contender : contenders) runners.emplace_back(contender, options);
  for (Runner& runner : runners) runner.warm_up();

  std::mt19937_64 generator(options.seed);
  std::vector<size_t> order(runners.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Checking after every round would cost more than the samples: the gaps between checks grow with
  // the number of rounds.
  size_t next_look = static_cast<size_t>(std::max(options.min_samples, 1));
  for (size_t round = 1;; ++round) {
    // Fisher-Yates by hand: std::shuffle differs between libraries. The bias is below 2^-50.
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(generator() % i)]);
    bool sampled = false;
    for (size_t i : order) {
      if (runners[i].retired()) continue;
      runners[i].take_sample();
      sampled = true;
    }
    if (!sampled) break;
    if (round < next_look) continue;
    next_look = round + 1 + round / 4;
    const bool enough =
        std::ranges::all_of(runners, [](const Runner& runner) { return runner.has_enough(); });
    if (enough && narrow_enough(runners, options)) break;
  }

  for (Runner& runner : runners) runner.time_with_packing();

  std::vector<Timing> timings;
  for (Runner& runner : runners) {
    summarise(runner.timing());
    timings.push_back(std::move(runner.timing()));
  }
  return timings;
}

void summarise(Timing& timing) {
  timing.median_ns = median(timing.samples_ns);
  timing.q1_ns = quantile(timing.samples_ns, 0.25);
  timing.q3_ns = quantile(timing.samples_ns, 0.75);
  const double fence = 1.5 * (timing.q3_ns - timing.q1_ns);
  timing.outliers = static_cast<int>(std::ranges::count_if(timing.samples_ns, [&](double sample) {
    return sample < timing.q1_ns - fence || sample > timing.q3_ns + fence;
  }));
}

Interval speedup(const Timing& baseline, const Timing& candidate, uint64_t seed) {
  return ratio_of_medians(baseline.samples_ns, candidate.samples_ns, kResamples, seed);
}

std::string verdict(const Interval& interval) {
  if (interval.low >= 1 - kSameBand && interval.high <= 1 + kSameBand) return "SAME";
  const auto surely = [&](double end) {
    return interval.value * std::pow(end / interval.value, kSurely);
  };
  if (interval.low > 1 && surely(interval.low) > 1) return "FASTER";
  if (interval.high < 1 && surely(interval.high) < 1) return "SLOWER";
  return "UNCLEAR";
}

}  // namespace wide
