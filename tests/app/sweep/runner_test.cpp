// The runner tells its observers what happens, leaves out what is done, and ends when asked to.
#include "app/sweep/runner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "app/sweep/part.h"
#include "app/worker/protocol.h"
#include "data/machine/peaks.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide::runner_test {
namespace {

std::vector<SweepCase> two_cases() {
  Preset preset;
  preset.name = "test";
  preset.targets = {"layernorm"};
  preset.sweep = "ci";
  preset.n = {2, 3};
  preset.axes = {{"layernorm", {{"D", {8}}, {"T", {4}}}}};
  return sweep_cases(preset, {});
}

SweepSettings settings() {
  SweepSettings s;
  s.budget_s = 0.01;
  s.baselines = {"loop"};
  return s;
}

/// Notes everything it is told, and stops the sweep when asked to.
struct Log : SweepObserver {
  std::vector<std::string> lines;
  std::vector<Case> cases;
  SweepRunner* stop_at_first = nullptr;

  void on_begin(const SweepCase& p) override { lines.push_back(fmt::format("begin {}", p.n)); }
  void on_stage(const std::string& what, const std::string& trial) override {
    if (what == "prepare" && cases.empty()) lines.push_back(what + " " + trial);
  }
  void on_case(const SweepCase&, const Case& c) override {
    lines.push_back(fmt::format("case {}", c.n));
    cases.push_back(c);
    if (stop_at_first) stop_at_first->stop();
  }
  void on_known(const SweepCase&, const Case& c) override {
    lines.push_back(fmt::format("known {}", c.n));
  }
  void on_end(const std::string& state) override { lines.push_back(state); }
};

using Lines = std::vector<std::string>;

TEST(SweepRunner, TellsWhatHappensInOrder) {
  SweepRunner runner(two_cases(), settings());
  Log log;
  runner.add(log);
  EXPECT_EQ(runner.run(), "complete");
  EXPECT_EQ(log.lines, (Lines{"begin 2", "prepare one_pass", "prepare wide", "prepare vmap",
                              "prepare per_model", "case 2", "begin 3", "case 3", "complete"}));
  for (const Case& c : log.cases) {
    ASSERT_EQ(c.baselines.size(), 1u);
    EXPECT_EQ(c.baselines[0].name, "loop");
    for (const Trial& t : c.trials) EXPECT_EQ(t.status, Status::ok) << t.reason;
    const CaseSeconds& s = c.seconds;
    for (const double part : {s.setup, s.compile, s.check, s.timing}) EXPECT_GT(part, 0);
    EXPECT_GE(s.total, s.setup + s.compile + s.check + s.baselines + s.timing);
  }
}

TEST(SweepRunner, WhatIsKnownDoesNotRunAgain) {
  const std::vector<SweepCase> cases = two_cases();
  SweepRunner runner(cases, settings());
  Log log;
  runner.add(log);
  runner.resume([&](const SweepCase& p) {
    const Case before = empty_case(cases[0]);
    return cases_digest({p}) == cases_digest({cases[0]}) ? std::optional(before) : std::nullopt;
  });
  runner.run();
  EXPECT_EQ(log.lines.front(), "known 2");
  EXPECT_EQ(log.lines.back(), "complete");
  ASSERT_EQ(log.cases.size(), 1u);
  EXPECT_EQ(log.cases[0].n, 3);
}

TEST(SweepRunner, StopsWhenAsked) {
  SweepRunner runner(two_cases(), settings());
  Log log;
  log.stop_at_first = &runner;
  runner.add(log);
  EXPECT_EQ(runner.run(), "cancelled");
  EXPECT_EQ(log.lines.back(), "cancelled");
  EXPECT_EQ(log.cases.size(), 1u);
}

TEST(SweepRunner, ObserversThatThrowEndIt) {
  struct Full : SweepObserver {
    void on_case(const SweepCase&, const Case&) override { throw Error("[store] disk: full", 1); }
  };
  SweepRunner runner(two_cases(), settings());
  Full full;
  runner.add(full);
  EXPECT_THROW(runner.run(), Error);
}

TEST(WorkerProtocol, CasesAndSettingsArriveAsTheyWere) {
  SweepCase planned = two_cases()[1];
  planned.dtype = at::kDouble;
  planned.mode = Mode::max_autotune;
  planned.phase = "step";
  SweepSettings sent = settings();
  sent.seed = ~uint64_t{0};
  sent.threads = 3;
  sent.baselines_off = {"vmap"};
  sent.forced = {{"linear", "einsum"}};
  Peaks peaks;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    peaks.flops_per_s[dtype] = 1e9 * double(1 + peaks.flops_per_s.size());
  peaks.bandwidth = {{1024, 3e9}, {1 << 20, 2e9}};
  peaks.step_ns = 321;
  sent.peaks = peaks;
  const auto request = nlohmann::ordered_json::parse(request_json(planned, sent).dump());
  const SweepCase got = sweep_case_from_json(request);
  EXPECT_EQ(got.target, planned.target);
  EXPECT_EQ(cases_digest({got}), cases_digest({planned}));
  EXPECT_EQ(got.strategies, planned.strategies);
  const SweepSettings settings_got = settings_from_json(request);
  EXPECT_EQ(settings_got.budget_s, sent.budget_s);
  EXPECT_EQ(settings_got.seed, sent.seed);
  EXPECT_EQ(settings_got.threads, sent.threads);
  EXPECT_EQ(settings_got.baselines, sent.baselines);
  EXPECT_EQ(settings_got.baselines_off, sent.baselines_off);
  EXPECT_EQ(settings_got.forced, sent.forced);
  ASSERT_TRUE(settings_got.peaks);
  EXPECT_EQ(settings_got.peaks_device, sent.peaks_device);
  EXPECT_EQ(settings_got.peaks->flops_per_s, peaks.flops_per_s);
  EXPECT_EQ(settings_got.peaks->memory_bytes_per_s(), peaks.memory_bytes_per_s());
  EXPECT_EQ(settings_got.peaks->step_ns, 321);
  // A worker judges by these, not by what the cache holds by then.
  use_peaks(c10::kCPU, 97, *settings_got.peaks);
  EXPECT_EQ(machine_peaks(c10::kCPU, 97).step_ns, 321);
}

}  // namespace
}  // namespace wide::runner_test
