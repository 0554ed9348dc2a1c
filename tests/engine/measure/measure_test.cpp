#include "engine/measure/measure.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <thread>

#include "engine/device.h"
#include "engine/measure/statistics.h"

namespace wide::measure_test {
namespace {

/// A clock that only moves when a contender is called.
struct FakeMachine {
  double now = 0;
  std::mt19937_64 generator{7};
  std::vector<std::string> calls;

  double noise(double sigma) {
    double sum = 0;  // of twelve uniforms: near enough to normal, the same on every machine
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(generator() >> 11) * 0x1p-53;
    return std::exp(sigma * (sum - 6));
  }
  Contender contender(const std::string& name, const std::string& kind, double ns, double sigma) {
    return {name, kind, [this, name, ns, sigma] {
              now += ns * noise(sigma);
              calls.push_back(name);
            }};
  }
  MeasureOptions options() {
    MeasureOptions options;
    options.now_ns = [this] { return now; };
    return options;
  }
};

Timing timing_of(std::vector<double> samples) {
  Timing timing;
  timing.samples_ns = std::move(samples);
  summarise(timing);
  return timing;
}

TEST(Statistics, QuartilesInterpolateAndOutliersAreCountedNotDropped) {
  const Timing timing = timing_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(timing.median_ns, 2.5);
  EXPECT_DOUBLE_EQ(timing.q1_ns, 1.75);
  EXPECT_DOUBLE_EQ(timing.q3_ns, 3.25);
  EXPECT_EQ(timing.outliers, 0);

  const Timing spiked = timing_of({10, 11, 12, 11, 10, 12, 11, 1000, 11, 1});
  EXPECT_EQ(spiked.outliers, 2);
  EXPECT_EQ(spiked.samples_ns.size(), 10u);
  EXPECT_DOUBLE_EQ(spiked.median_ns, 11);
  EXPECT_DOUBLE_EQ(timing_of({}).median_ns, 0);
  EXPECT_DOUBLE_EQ(timing_of({5}).q3_ns, 5);
}

TEST(Statistics, MeansAreComparedInStandardErrors) {
  const Mean mean = mean_of({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(mean.value, 2.5);
  EXPECT_NEAR(mean.error, std::sqrt(5.0 / 3 / 4), 1e-12);
  EXPECT_NEAR(distance_in_errors({1, 0.3}, {2, 0.4}), 2, 1e-12);
  EXPECT_EQ(distance_in_errors({1, 0}, {1, 0}), 0);
  EXPECT_TRUE(std::isinf(distance_in_errors({1, 0}, {2, 0})));
}

/// Pairs of samples of two contenders, the first exactly twice as slow, under some kind of noise.
struct Noise {
  const char* name;
  std::function<void(FakeMachine&, std::vector<double>&, std::vector<double>&)> fill;
};

double uniform(FakeMachine& machine) {
  return static_cast<double>(machine.generator() >> 11) * 0x1p-53;
}

/// What disturbs each side lasts: the next round inherits `rho` of it.
void lasting(FakeMachine& machine, double rho, std::vector<double>& a, std::vector<double>& b) {
  double x = 0, y = 0;
  for (int i = -30; i < static_cast<int>(a.size()); ++i) {
    x = rho * x + std::log(machine.noise(0.03));
    y = rho * y + std::log(machine.noise(0.03));
    if (i < 0) continue;
    a[static_cast<size_t>(i)] = 2000 * std::exp(x);
    b[static_cast<size_t>(i)] = 1000 * std::exp(y);
  }
}

/// Student's t with two degrees of freedom has no variance.
double heavy(FakeMachine& machine) {
  const double u = 2 * uniform(machine) - 1;
  return u * std::sqrt(2 / std::max(1e-12, 1 - u * u));
}

const std::vector<Noise>& noises() {
  using V = std::vector<double>;
  static const std::vector<Noise> all = {
      {"normal", [](FakeMachine& m, V& a, V& b) { lasting(m, 0, a, b); }},
      {"lasting", [](FakeMachine& m, V& a, V& b) { lasting(m, 0.5, a, b); }},
      {"heavy tails",
       [](FakeMachine& m, V& a, V& b) {
         for (double& x : a) x = 2000 * std::exp(0.02 * heavy(m));
         for (double& x : b) x = 1000 * std::exp(0.02 * heavy(m));
       }},
      {"spikes",
       [](FakeMachine& m, V& a, V& b) {
         const auto spiked = [&] {
           return m.noise(0.02) * (uniform(m) < 0.1 ? 1 + uniform(m) : 1);
         };
         for (double& x : a) x = 2000 * spiked();
         for (double& x : b) x = 1000 * spiked();
       }},
      {"one clock for both", [](FakeMachine& m, V& a, V& b) {
         lasting(m, 0, a, b);
         for (size_t i = 0; i < a.size(); ++i) {
           const double drift = m.noise(0.03);  // pairing is there to take it out
           a[i] *= drift;
           b[i] *= drift;
         }
       }}};
  return all;
}

TEST(Statistics, NinetyFivePercentIntervalsCoverUnderAnyNoise) {
  constexpr int kPairs = 400;
  constexpr double kChance = 0.015;  // of a share that is seen in so many pairs
  int all = 0;
  for (const Noise& noise : noises()) {
    FakeMachine machine;
    int covered = 0;
    for (int k = 0; k < kPairs; ++k) {
      const size_t count = k % 3 == 0 ? 24 : k % 3 == 1 ? 60 : 150;
      std::vector<double> slow(count), fast(count);
      noise.fill(machine, slow, fast);
      const Interval i = ratio_of_medians(slow, fast, 300, static_cast<uint64_t>(k));
      EXPECT_LE(i.low, i.value);
      EXPECT_GE(i.high, i.value);
      covered += i.low <= 2 && 2 <= i.high ? 1 : 0;
    }
    EXPECT_GE(covered, kPairs * (0.93 - kChance)) << noise.name;
    EXPECT_LE(covered, kPairs * (0.97 + kChance)) << noise.name;
    all += covered;
  }
  const double pairs = kPairs * static_cast<double>(noises().size());
  EXPECT_GE(all, pairs * 0.93);
  EXPECT_LE(all, pairs * 0.97);
}

TEST(Statistics, EqualHalvesAreNotCalledFasterOrSlower) {
  constexpr int kPairs = 200;
  for (const Noise& noise : noises()) {
    FakeMachine machine;
    std::map<std::string, int> verdicts;
    std::vector<double> a(100), b(100);
    for (int k = 0; k < kPairs; ++k) {
      noise.fill(machine, a, b);
      for (double& x : b) x *= 2;
      const Interval i = ratio_of_medians(a, b, 300, static_cast<uint64_t>(k));
      ++verdicts[verdict(i)];
    }
    EXPECT_GE(verdicts["SAME"] + verdicts["UNCLEAR"], kPairs * 0.99) << noise.name;
  }
}

TEST(Statistics, PairsByTheCommonPrefixAndRepeatsForASeed) {
  const Timing baseline = timing_of({30, 31, 32, 500, 500, 500});
  const Timing candidate = timing_of({10, 10, 10});
  const Interval interval = speedup(baseline, candidate, 3);
  EXPECT_DOUBLE_EQ(interval.value, 3.1);
  EXPECT_LE(interval.high, 3.3);  // and not 50: rounds that one of them had no part in do not count
  const Interval again = speedup(baseline, candidate, 3);
  EXPECT_EQ(interval.low, again.low);
  EXPECT_EQ(interval.high, again.high);
  EXPECT_EQ(speedup(baseline, timing_of({})).value, 0);
}

TEST(Statistics, Verdicts) {
  EXPECT_EQ(verdict({1.2, 1.1, 1.3}), "FASTER");
  EXPECT_EQ(verdict({0.8, 0.7, 0.9}), "SLOWER");
  EXPECT_EQ(verdict({0.8, 0.7, 0.99}), "UNCLEAR");  // 1 is inside at 99.5 %
  EXPECT_EQ(verdict({1.01, 0.98, 1.03}), "SAME");
  EXPECT_EQ(verdict({1.02, 1.01, 1.03}), "SAME");  // surely faster, but by nothing that matters
  EXPECT_EQ(verdict({1.02, 0.9, 1.2}), "UNCLEAR");
  EXPECT_EQ(verdict({1.03, 1.01, 1.05}), "FASTER");
}

TEST(Measure, InterleavesRoundsInRandomOrder) {
  FakeMachine machine;
  const auto timings = measure({machine.contender("loop", "baseline", 3e6, 0.001),
                                machine.contender("wide", "candidate", 1.5e6, 0.001)},
                               machine.options());
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(timings[0].name, "loop");
  EXPECT_EQ(timings[1].kind, "candidate");
  EXPECT_NEAR(speedup(timings[0], timings[1]).value, 2, 0.01);
  // One warming and one timed call a sample here, so the tail of the calls is the rounds: each
  // holds both contenders, in an order that changes.
  const size_t rounds = timings[0].samples_ns.size();
  ASSERT_EQ(timings[1].samples_ns.size(), rounds);
  ASSERT_EQ(timings[0].calls_per_sample, 1);
  int loop_first = 0;
  for (size_t r = 0; r < rounds; ++r) {
    const size_t at = machine.calls.size() - 4 * (rounds - r);
    EXPECT_EQ(machine.calls[at], machine.calls[at + 1]);
    EXPECT_EQ(machine.calls[at + 2], machine.calls[at + 3]);
    EXPECT_NE(machine.calls[at], machine.calls[at + 2]);
    loop_first += machine.calls[at] == "loop" ? 1 : 0;
  }
  EXPECT_GT(loop_first, 0);
  EXPECT_LT(loop_first, static_cast<int>(rounds));
}

TEST(Measure, SamplesAreLongEnoughAndStopWhenTheIntervalIsNarrow) {
  FakeMachine machine;
  const auto quiet = measure({machine.contender("loop", "baseline", 900, 1e-4),
                              machine.contender("wide", "candidate", 300, 1e-4)},
                             machine.options());
  for (const Timing& timing : quiet) {
    EXPECT_EQ(timing.samples_ns.size(), 10u);
    EXPECT_GE(static_cast<double>(timing.calls_per_sample) * timing.median_ns, 1e6);
    EXPECT_GT(timing.first_call_ns, 0);
  }
  FakeMachine loud;
  const auto noise = measure({loud.contender("loop", "baseline", 2e6, 0.05),
                              loud.contender("wide", "candidate", 2e6, 0.05)},
                             loud.options());
  EXPECT_GT(noise[0].samples_ns.size(), 40u);
  const Interval interval = speedup(noise[0], noise[1]);
  EXPECT_LT(interval.high - interval.low, 0.025);
}

TEST(Measure, WarmsUpAndTimesTheVeryFirstCall) {
  FakeMachine machine;
  int calls = 0;
  const Contender lazy{"wide", "candidate", [&] { machine.now += ++calls == 1 ? 5e8 : 2e6; }};
  const auto timings = measure({lazy}, machine.options());
  EXPECT_DOUBLE_EQ(timings[0].first_call_ns, 5e8);
  EXPECT_DOUBLE_EQ(timings[0].median_ns, 2e6);
  EXPECT_DOUBLE_EQ(timings[0].q3_ns, 2e6);
  EXPECT_GE(calls, 1 + 10 + 10);  // the first, 20 ms of warm-up, ten samples
}

TEST(Measure, ACallAfterAnotherContenderIsNotTimed) {
  FakeMachine machine;
  std::string last;
  auto cached = [&](const std::string& name, const std::string& kind) {
    return Contender{name, kind, [&machine, &last, name] {
                       machine.now += last == name ? 2e6 : 6e6;  // the other one's data lay there
                       last = name;
                     }};
  };
  const auto timings =
      measure({cached("loop", "baseline"), cached("wide", "candidate")}, machine.options());
  for (const Timing& timing : timings) EXPECT_DOUBLE_EQ(timing.median_ns, 2e6);
}

TEST(Measure, ASlowContenderDoesNotEatTheBudget) {
  FakeMachine machine;
  const auto timings = measure({machine.contender("loop", "baseline", 5e8, 0.05),
                                machine.contender("threads", "baseline", 2e6, 0.05),
                                machine.contender("wide", "candidate", 2e6, 0.05)},
                               machine.options());
  EXPECT_EQ(timings[0].samples_ns.size(), 10u);
  EXPECT_GT(timings[1].samples_ns.size(), 40u);
  EXPECT_NEAR(static_cast<double>(timings[1].samples_ns.size()),
              static_cast<double>(timings[2].samples_ns.size()), 5);  // equal but for their noise

  FakeMachine endless;
  const auto few = measure({endless.contender("loop", "baseline", 4e9, 0.05),
                            endless.contender("wide", "candidate", 1e9, 0.05)},
                           endless.options());
  EXPECT_EQ(few[0].samples_ns.size(), 10u);  // the fewest, whatever they take
  EXPECT_EQ(few[1].samples_ns.size(), 10u);
}

TEST(Measure, ExtendsSamplesOfCallsThatBecameFaster) {
  FakeMachine machine;
  int calls = 0;
  const Contender warming{"wide", "candidate", [&] { machine.now += ++calls < 34 ? 1e6 : 1e5; }};
  const auto timings = measure({warming}, machine.options());
  EXPECT_DOUBLE_EQ(timings[0].median_ns, 1e5);
  // Ten samples of at least a millisecond each.
  EXPECT_GE(calls, 34 + 90);
}

TEST(Measure, ASlowFirstCallDoesNotShortenTheSamples) {
  FakeMachine machine;
  int calls = 0;
  Contender wide{"wide", "candidate", [&] { machine.now += ++calls == 1 ? 3e7 : 1e4; }};
  wide.has_run = true;  // so that its first call is all that warms it
  const Timing timing = measure({wide}, machine.options())[0];
  EXPECT_DOUBLE_EQ(timing.median_ns, 1e4);
  EXPECT_EQ(timing.samples_ns.size(), 10u);
  EXPECT_GE(static_cast<double>(timing.calls_per_sample) * timing.median_ns, 1e6);
  EXPECT_GE(calls, 10 * 100);  // a sample is a millisecond of calls
}

TEST(Measure, CountsTheBytesOfTheFirstCall) {
  Tensor kept;
  const Contender contender{"wide", "candidate", [&] {
                              const Tensor passing = at::empty({1 << 18}, at::kFloat);
                              kept =
                                  at::zeros({1 << 18}, at::kFloat) + passing.select(0, 0).zero_();
                            }};
  MeasureOptions options;
  options.budget_s = 0.05;
  const auto timings = measure({contender}, options);
  EXPECT_GE(timings[0].peak_bytes, 3 << 20);
  EXPECT_LT(timings[0].peak_bytes, (3 << 20) + 4096);
}

TEST(Measure, CallsWithPackingAreTimedBesideThePlainOnes) {
  FakeMachine machine;
  Contender wide = machine.contender("wide", "candidate", 2e6, 0.01);
  wide.call_with_packing = [&] { machine.now += 5e6; };
  const auto timings =
      measure({machine.contender("loop", "baseline", 3e6, 0.01), wide}, machine.options());
  EXPECT_EQ(timings[0].with_packing_ns, 0);
  EXPECT_DOUBLE_EQ(timings[1].with_packing_ns, 5e6);
  EXPECT_NEAR(timings[1].median_ns, 2e6, 1e5);
}

TEST(Measure, LongCallsWithPackingTakeAQuarterOfABudget) {
  FakeMachine machine;
  Contender wide = machine.contender("wide", "candidate", 2e6, 0.01);
  int packed = 0;
  wide.call_with_packing = [&] { machine.now += ++packed == 1 ? 9e8 : 2e8; };
  const auto timings = measure({wide}, machine.options());
  EXPECT_EQ(packed, 2);  // the first is warming, and 0.375 s are over
  EXPECT_DOUBLE_EQ(timings[0].with_packing_ns, 2e8);
}

TEST(Measure, WhatHasRunBeforeIsWarmAfterALongCall) {
  for (const bool has_run : {true, false}) {
    FakeMachine machine;
    Contender wide = machine.contender("wide", "candidate", 3e8, 0);
    wide.has_run = has_run;
    EXPECT_EQ(measure({wide}, machine.options())[0].samples_ns.size(), 10u);
    EXPECT_EQ(machine.calls.size(), has_run ? 1u + 10 : 2u + 10);
  }
  FakeMachine machine;
  Contender quick = machine.contender("wide", "candidate", 4e6, 0);
  quick.has_run = true;
  measure({quick}, machine.options());
  EXPECT_GE(machine.calls.size(), 5u + 20);  // 20 ms of warm-up, ten samples, each after a call
}

TEST(MeasureTiming, AgreesWithTheMachinesClock) {
  using namespace std::chrono_literals;
  MeasureOptions options;
  options.budget_s = 0.2;
  const auto timings = measure({{"loop", "baseline", [] { std::this_thread::sleep_for(4ms); }},
                                {"wide", "candidate", [] { std::this_thread::sleep_for(2ms); }}},
                               options);
  const Interval interval = speedup(timings[0], timings[1]);
  EXPECT_GT(interval.value, 1.4);  // on a busy machine both sleep longer
  EXPECT_LT(interval.value, 3);
  EXPECT_EQ(verdict(interval), "FASTER");
  EXPECT_GE(timings[1].median_ns, 2e6);
}

TEST(Device, TheCpuIsAlwaysThereAndOthersSayWhyNot) {
  EXPECT_FALSE(unavailable(c10::kCPU).has_value());
  synchronize(c10::kCPU);
  const auto reason = unavailable(c10::Device(c10::kXPU, 0));
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(*reason,
            "[device] xpu:0: got a build without xpu, expected one compiled with its headers; try "
            "--device cpu");
}

TEST(DeviceCuda, TimesStreamsAndGraphs) {
  const c10::Device device(c10::kCUDA, 0);
  if (const auto reason = unavailable(device)) GTEST_SKIP() << *reason;
  DeviceRuntime& runtime = *device_runtime(c10::kCUDA);
  const Tensor x = at::ones({512, 512}, at::device(device));
  std::vector<Tensor> sums(6);
  std::vector<Work> works;
  for (size_t i = 0; i < sums.size(); ++i)
    works.push_back([&, i] { sums[i] = (x + static_cast<double>(i)).sum(); });
  const auto timer = runtime.timer(device);
  timer->start();
  runtime.on_streams(device, works, 4)();
  EXPECT_GT(timer->stop_ns(), 0);
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_EQ(sums[i].item<float>(), 512.f * 512.f * static_cast<float>(i + 1));

  Tensor doubled;
  const auto graph = capture(device, [&] { doubled = x * 2; });
  x.fill_(3);
  graph->replay();
  runtime.synchronize(device);
  EXPECT_EQ(doubled.min().item<float>(), 6);
  EXPECT_GT(runtime.memory(device).total, runtime.memory(device).free);
}

}  // namespace
}  // namespace wide::measure_test
