#include "data/reports/sweep/compare/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "data/reports/sweep/compare/compare_noise.h"
#include "data/reports/sweep/report_json.h"

namespace wide::compare_test {
namespace {

/// Sweeps of one build on a machine that is not quiet. Logarithms of times add up from: the case's
/// machine speed in this run, the contender's own luck in this run (where its memory lies), a slow
/// wave that all contenders of a case see, one of its own, and now and then a spike.
class Simulation {
 public:
  explicit Simulation(uint64_t seed) : generator_(seed) {}

  double luck = 0.02;        // between runs, per contender
  double slow_strategy = 1;  // factor of target 3's "grouped"
  size_t targets = 5;
  std::vector<int64_t> ns = {4, 8, 16, 32};

  SweepReport sweep() {
    SweepReport report;
    report.name = "simulated";
    report.environment.cpu = "one CPU";
    report.environment.cores = report.environment.threads = 2;
    for (size_t target = 0; target < targets; ++target)
      for (const int64_t n : ns) report.cases.push_back(make_case(target, n));
    return report;
  }

 private:
  double normal(double deviation) {
    // Not std::normal_distribution: libraries differ in what they draw.
    const double u = (static_cast<double>(generator_() >> 11) + 0.5) / 9007199254740992.0;
    const double v = static_cast<double>(generator_() >> 11) / 9007199254740992.0;
    return deviation * std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
  }

  std::vector<double> wave(size_t count, double deviation) {
    constexpr double kMemory = 0.8;
    std::vector<double> out(count);
    double state = normal(deviation);
    for (double& value : out) {
      value = state;
      state = kMemory * state + normal(deviation * std::sqrt(1 - kMemory * kMemory));
    }
    return out;
  }

  Timing timing(const std::string& name, const char* kind, double ns_per_call, double machine,
                const std::vector<double>& common) {
    Timing t;
    t.name = name;
    t.kind = kind;
    const double own = machine + normal(luck);
    const std::vector<double> wobble = wave(common.size(), 0.015);
    for (size_t i = 0; i < common.size(); ++i) {
      const bool spike = generator_() % 20 == 0;
      t.samples_ns.push_back(ns_per_call * std::exp(own + common[i] + wobble[i] + normal(0.01) +
                                                    (spike ? std::abs(normal(0.4)) : 0)));
    }
    summarise(t);
    return t;
  }

  Case make_case(size_t target, int64_t n) {
    Case c;
    c.target = "target" + std::to_string(target);
    c.shape = "B8";
    c.device = "cpu";
    c.dtype = "f32";
    c.mode = "default";
    c.n = n;
    const double machine = normal(0.1), scale = 1e5 * static_cast<double>(n);
    const std::vector<double> common = wave(30, 0.03);
    for (const char* name : {"loop", "threads", "vmap"})
      c.baselines.push_back(timing(name, "baseline", scale, machine, common));
    for (const char* name : {"batched", "grouped", "fused", "vmap", "per_model"}) {
      Trial t;
      t.strategy = name;
      const bool slow = target == 3 && t.strategy == "grouped";
      t.timing = timing(name, "candidate", scale * (slow ? slow_strategy : 1), machine, common);
      c.trials.push_back(std::move(t));
    }
    return c;
  }

  std::mt19937_64 generator_;
};

TEST(Compare, OneBuildAgainstItselfIsNeverARegression) {
  Simulation machine(1);
  size_t alarms = 0, trials = 0, faster = 0;
  SweepReport reference = machine.sweep();
  for (int repetition = 0; repetition < 220; ++repetition) {
    if (repetition % 10 == 0) reference = machine.sweep();
    const Comparison c = compare_sweeps(reference, machine.sweep());
    trials += c.trials.size();
    alarms += regressions(c, 0).size();
    for (const ComparedTrial& t : c.trials) faster += t.verdict == "FASTER";
  }
  EXPECT_EQ(trials, 220u * 100);
  EXPECT_EQ(alarms, 0u);
  EXPECT_EQ(faster, 0u);
}

TEST(Compare, APlantedSlowdownIsFoundAndNamed) {
  size_t found = 0, wrong = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Simulation machine(100 + seed);
    const SweepReport before = machine.sweep();
    machine.slow_strategy = 1.3;
    const Comparison c = compare_sweeps(before, machine.sweep());
    bool here = false;
    for (const ComparedTrial& t : regressions(c, 10)) {
      const bool planted = t.key.target == "target3" && t.key.strategy == "grouped";
      here |= planted;
      wrong += !planted;
      EXPECT_EQ(t.key.text().rfind("target3/grouped n=", 0), 0u) << t.key.text();
    }
    found += here;
    // Slowest first.
    EXPECT_EQ(c.trials.front().key.strategy, "grouped");
  }
  EXPECT_EQ(found, 40u);
  EXPECT_EQ(wrong, 0u);
}

TEST(Compare, ABaselineThatRanFasterIsNoRegression) {
  Simulation machine(7);
  const SweepReport before = machine.sweep();
  SweepReport after = before;
  for (Timing& t : after.cases[5].baselines) {
    for (double& ns : t.samples_ns) ns *= 0.6;
    summarise(t);
  }
  const Comparison c = compare_sweeps(before, after);
  EXPECT_TRUE(std::any_of(c.trials.begin(), c.trials.end(), [](const ComparedTrial& t) {
    return t.verdict == "SLOWER" && t.slower_percent() > 10;
  }));
  EXPECT_TRUE(regressions(c, 10).empty());
}

TEST(Compare, BaselinesThatChangedApartSayLess) {
  Simulation machine(7);
  const SweepReport before = machine.sweep();
  SweepReport after = before;
  const auto times = [](Timing& t, double factor) {
    for (double& ns : t.samples_ns) ns *= factor;
    summarise(t);
  };
  // Two of three found the machine faster, and the trial did not: which of them is to be believed?
  for (size_t i = 1; i < 3; ++i) times(after.cases[5].baselines[i], 0.75);
  times(after.cases[5].trials[0].timing, 1.08);
  for (const ComparedTrial& t : compare_sweeps(before, after).trials)
    EXPECT_NE(t.verdict, "SLOWER") << t.key.text();
  // All three do: then it is slower.
  times(after.cases[5].baselines[0], 0.75);
  EXPECT_EQ(regressions(compare_sweeps(before, after), 10).size(), 1u);
}

TEST(Compare, ASmallSweepFindsItToo) {
  size_t found = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Simulation machine(200 + seed);
    machine.targets = 4;
    machine.ns = {4};
    machine.luck = 0.01;
    const SweepReport before = machine.sweep();
    machine.slow_strategy = 1.3;
    found += !regressions(compare_sweeps(before, machine.sweep()), 10).empty();
  }
  EXPECT_GE(found, 36u);
}

TEST(Compare, ANoisierMachineWidensTheIntervals) {
  Simulation quiet(5), loud(5);
  loud.luck = 0.08;
  const Comparison a = compare_sweeps(quiet.sweep(), quiet.sweep());
  const Comparison b = compare_sweeps(loud.sweep(), loud.sweep());
  EXPECT_GT(b.noise, 2 * a.noise);
  EXPECT_NEAR(a.noise, 0.03, 0.01);
  EXPECT_TRUE(regressions(b, 0).empty());
}

TEST(Compare, OtherHardwareIsUnclearAndSaysSo) {
  Simulation machine(6);
  const SweepReport before = machine.sweep();
  machine.slow_strategy = 3;
  SweepReport after = machine.sweep();
  EXPECT_FALSE(regressions(compare_sweeps(before, after), 10).empty());
  const auto unclear = [&](const std::string& reason) {
    const Comparison c = compare_sweeps(before, after);
    EXPECT_TRUE(regressions(c, 10).empty());
    for (const ComparedTrial& t : c.trials) {
      EXPECT_EQ(t.verdict, "UNCLEAR");
      EXPECT_EQ(t.why_unclear, reason);
    }
  };
  after.environment.cpu = "another CPU";
  unclear("other hardware: CPU: one CPU before, another CPU after");
  after.environment.cpu = "one CPU";
  after.environment.gpu = "H100";
  unclear("other hardware: GPU: none before, H100 after");
  after.environment.gpu = "";
  after.environment.threads = 1;
  unclear("other hardware: threads: 2 before, 1 after");
}

TEST(Compare, OfSeveralMachinesEachIsComparedWithItsOwnHardware) {
  Simulation machine(7);
  SweepReport before = machine.sweep();
  machine.slow_strategy = 1.3;
  SweepReport after = machine.sweep();
  Environment other = after.environment;
  other.host = "other";
  other.cpu = "another CPU";
  const double noise = compare_sweeps(before, after).noise;
  after.machines = {other};
  for (Case& c : after.cases)
    if (c.n == 32) {
      c.machine = machine_name(other);
      for (Trial& t : c.trials)
        for (double& ns : t.timing.samples_ns) ns *= 9;  // says nothing of the noise
    }
  const Comparison c = compare_sweeps(before, after);
  EXPECT_TRUE(c.hardware.empty());
  EXPECT_NEAR(c.noise, noise, noise / 2);
  size_t slower = 0;
  for (const ComparedTrial& t : c.trials) {
    EXPECT_EQ(t.why_unclear,
              t.key.n == 32 ? "other hardware: CPU: one CPU before, another CPU after" : "");
    slower += t.verdict == "SLOWER";
  }
  EXPECT_GT(slower, 0u);
  // A machine that is equal but for its name is no other hardware.
  after.machines[0].cpu = "one CPU";
  for (Case& k : after.cases)
    if (k.n == 32) k.machine = machine_name(after.machines[0]);
  for (const ComparedTrial& t : compare_sweeps(before, after).trials) EXPECT_EQ(t.why_unclear, "");
}

TEST(Compare, ADisturbedCaseNeedsTwiceTheEvidence) {
  Simulation machine(7);
  const SweepReport before = machine.sweep();
  SweepReport after = machine.sweep();
  const auto width = [&] {
    const Interval i = compare_sweeps(before, after).trials.at(0).change;
    return std::log(i.high / i.low);
  };
  const double quiet = width();
  for (Case& c : after.cases) c.disturbed = true;
  EXPECT_GT(width(), 1.6 * quiet);
}

TEST(Compare, ADisturbedCaseIsUnclearOnEitherSide) {
  Simulation machine(6);
  SweepReport before = machine.sweep();
  machine.slow_strategy = 3;
  SweepReport after = machine.sweep();
  ASSERT_FALSE(regressions(compare_sweeps(before, after), 10).empty());
  for (SweepReport* side : {&before, &after}) {
    side->cases[0].disturbed = true;
    for (const ComparedTrial& t : compare_sweeps(before, after).trials) {
      const bool disturbed = t.key.n == side->cases[0].n && t.key.target == side->cases[0].target &&
                             t.key.shape == side->cases[0].shape;
      EXPECT_EQ(t.disturbed, disturbed) << t.key.text();
      EXPECT_EQ(t.why_unclear, disturbed ? "other programs disturbed it" : "");
      EXPECT_TRUE(!disturbed || t.verdict == "UNCLEAR");
    }
    side->cases[0].disturbed = false;
  }
  for (Case& c : after.cases) c.disturbed = true;
  EXPECT_TRUE(regressions(compare_sweeps(before, after), 10).empty());
}

TEST(Compare, StatusesCrossoversAndMissingTrialsAreListed) {
  Simulation machine(8);
  machine.targets = 1;
  machine.ns = {4, 8};
  SweepReport before = machine.sweep(), after = before;
  for (SweepReport* report : {&before, &after})
    for (Case& c : report->cases)
      for (Trial& t : c.trials) t.verdict = "FASTER";
  after.cases[0].trials[1].status = Status::incorrect;
  after.cases[0].trials.pop_back();
  after.cases[1].trials[2].verdict = "SLOWER";
  after.environment.libtorch = "2.12";
  const Comparison c = compare_sweeps(before, after);
  ASSERT_EQ(c.statuses.size(), 2u);
  EXPECT_EQ(c.statuses[0].key.text(), "target0/grouped n=4 B8");
  EXPECT_EQ(c.statuses[0].before + " " + c.statuses[0].after, "ok incorrect");
  EXPECT_EQ(c.statuses[1].before + " " + c.statuses[1].after, "ok ");
  ASSERT_EQ(c.crossovers.size(), 2u);  // grouped 4 to 8, fused 4 to never; per_model lacks a 4
  EXPECT_EQ(c.crossovers[0].text(), "target0/grouped B8");
  EXPECT_EQ(c.crossovers[0].where.strategy, "grouped");
  EXPECT_EQ(c.crossovers[0].before, 4);
  EXPECT_EQ(c.crossovers[0].after, 8);
  EXPECT_EQ(c.crossovers[1].after, std::nullopt);
  ASSERT_EQ(c.environment.size(), 1u);
  EXPECT_EQ(c.environment[0].what + " " + c.environment[0].after, "libtorch 2.12");
  EXPECT_EQ(c.trials.size(), 8u);
  const auto j = to_json(c);
  EXPECT_EQ(j["trials"].size(), 8u);
  EXPECT_TRUE(j["statuses"][1]["after"].is_null());
  EXPECT_EQ(j["crossovers"][0]["after"], 8);
}

TEST(Compare, DisturbedCasesChangeNoCrossover) {
  Simulation machine(8);
  machine.targets = 1;
  SweepReport before = machine.sweep();
  for (Case& c : before.cases)
    for (Trial& t : c.trials) t.verdict = "FASTER";
  SweepReport after = before;
  const auto disturb = [](Case& c) {
    c.disturbed = true;
    for (Trial& t : c.trials) t.verdict = "UNCLEAR";
  };
  disturb(after.cases[3]);
  EXPECT_TRUE(compare_sweeps(before, after).crossovers.empty());
  EXPECT_TRUE(compare_sweeps(after, before).crossovers.empty());
  // What changed at the other Ns, or was wrong, is still named.
  after.cases[1].trials[0].verdict = "SLOWER";
  after.cases[3].trials[1].status = Status::incorrect;
  const std::vector<CrossoverChange> changes = compare_sweeps(before, after).crossovers;
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].where.strategy, "batched");
  EXPECT_EQ(changes[0].before, 4);
  EXPECT_EQ(changes[0].after, 16);
  EXPECT_EQ(changes[1].where.strategy, "grouped");
  EXPECT_EQ(changes[1].after, std::nullopt);
  for (Case& c : after.cases) disturb(c);
  after.cases[3].trials[1].status = Status::ok;
  EXPECT_TRUE(compare_sweeps(before, after).crossovers.empty());
}

TEST(Compare, CrossoversAreFoundOverTheNsOfBothAndSayWhereTheyAre) {
  Simulation machine(8);
  machine.targets = 1;
  SweepReport before = machine.sweep(), after = before;
  for (SweepReport* report : {&before, &after})
    for (Case& c : report->cases) {
      c.mode = "eager";
      c.phase = "backward";
      c.dtype = "f64";
      for (Trial& t : c.trials) t.verdict = "FASTER";
    }
  after.cases.erase(after.cases.begin(), after.cases.begin() + 2);  // at 16 and 32 alone
  EXPECT_TRUE(compare_sweeps(before, after).crossovers.empty());
  EXPECT_TRUE(compare_sweeps(after, before).crossovers.empty());
  before.cases[2].trials[0].verdict = "SLOWER";
  before.cases[3].trials[1].verdict = "SLOWER";
  const Comparison c = compare_sweeps(before, after);
  ASSERT_EQ(c.crossovers.size(), 2u);
  EXPECT_EQ(c.crossovers[0].before, 32);
  EXPECT_EQ(c.crossovers[0].after, 16);
  EXPECT_EQ(c.crossovers[1].before, std::nullopt);
  EXPECT_EQ(c.crossovers[1].after, 16);
  EXPECT_TRUE(c.crossovers[0].text().ends_with(" B8 eager backward f64")) << c.crossovers[0].text();
  after.cases.clear();
  EXPECT_TRUE(compare_sweeps(before, after).crossovers.empty());
}

TEST(Compare, NothingInCommonOrBrokenTimesAreUnclear) {
  Simulation machine(9);
  SweepReport before = machine.sweep(), after = machine.sweep();
  before.cases[0].baselines.clear();
  after.cases[1].trials[0].timing.samples_ns.assign(20, 0.0);
  after.cases[2].trials[0].timing.samples_ns = {std::nan(""), 1, 2, 3};
  const Comparison c = compare_sweeps(before, after);
  size_t unclear = 0;
  for (const ComparedTrial& t : c.trials) unclear += !t.why_unclear.empty();
  EXPECT_EQ(unclear, 7u);
  EXPECT_TRUE(compare_sweeps(SweepReport{}, after).trials.empty());
  EXPECT_TRUE(compare_sweeps(SweepReport{}, SweepReport{}).statuses.empty());
}

TEST(Compare, StudentQuantiles) {
  // From tables: two-sided 5 %, 1 % and 0.1 %.
  EXPECT_NEAR(student_quantile(0.05, 8), 2.306, 1e-3);
  EXPECT_NEAR(student_quantile(0.01, 20), 2.845, 1e-3);
  EXPECT_NEAR(student_quantile(0.001, 12), 4.318, 1e-3);
}

}  // namespace
}  // namespace wide::compare_test
