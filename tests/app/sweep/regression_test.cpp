// What the end of a sweep says to scripts.
#include "app/sweep/regression.h"

#include <gtest/gtest.h>

namespace wide::regression_test {
namespace {

SweepReport report_with(std::vector<Status> statuses) {
  SweepReport report;
  report.name = "mine";
  Case& c = report.cases.emplace_back();
  c.target = "linear";
  c.n = 3;
  for (const Status status : statuses) {
    Trial& t = c.trials.emplace_back();
    t.strategy = "s" + std::to_string(c.trials.size());
    t.status = status;
  }
  return report;
}

ComparedTrial compared(const std::string& strategy, double change, bool disturbed) {
  ComparedTrial t;
  t.key.target = "linear";
  t.key.strategy = strategy;
  t.key.n = 3;
  t.before_ns = 1;
  t.after_ns = 1 / change;
  t.change = {change, 0.9 * change, 1.1 * change};
  t.verdict = disturbed ? "UNCLEAR" : change < 1 ? "SLOWER" : "FASTER";
  t.disturbed = disturbed;
  return t;
}

TEST(SweepExitCode, IncorrectBeforeCrashedBeforeOk) {
  EXPECT_EQ(failed_trials(report_with({Status::ok, Status::unsupported})).exit_code, 0);
  EXPECT_EQ(failed_trials(report_with({Status::oom, Status::ok})).exit_code, 5);
  const Complaint both = failed_trials(report_with({Status::timeout, Status::incorrect}));
  EXPECT_EQ(both.exit_code, 4);
  EXPECT_EQ(
      both.line,
      "[mine] trials: got 1 incorrect or failed (linear/s2 n=3 incorrect), expected none; try "
      "--targets linear");
}

TEST(SweepExitCode, ADisturbedTrialPassesNothing) {
  const SweepReport report = report_with({Status::ok}), reference = report;
  Comparison c;
  c.trials = {compared("quiet", 1.0, false)};
  EXPECT_TRUE(slower_trials(report, reference, c, 10).empty());
  c.trials = {compared("noisy", 0.5, true)};
  std::vector<Complaint> said = slower_trials(report, reference, c, 10);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].exit_code, 1);
  EXPECT_EQ(said[0].line,
            "[mine] regression: got 1 trials that other programs disturbed here or in mine "
            "(linear/noisy n=3), expected a quiet machine; try workbench sweep PRESET --resume "
            "--again disturbed");
  c.trials.push_back(compared("slow", 0.5, false));
  said = slower_trials(report, reference, c, 10);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].exit_code, 3);
  c.trials.clear();
  said = slower_trials(report, reference, c, 10);
  ASSERT_EQ(said.size(), 1u) << "nothing was compared";
  EXPECT_EQ(said[0].exit_code, 1);
}

TEST(SweepExitCode, WhatOnlyFasterBaselinesMadeSlowerIsCounted) {
  Comparison c;
  c.trials = {compared("slow", 0.8, false), compared("same", 1.0, false)};
  EXPECT_EQ(faster_baselines_text(c, 10), "");
  c.trials.push_back(compared("beside", 0.8, false));
  c.trials.back().after_ns = 1.04 * c.trials.back().before_ns;
  EXPECT_EQ(faster_baselines_text(c, 10),
            "1 trial is SLOWER relative to its baselines, but not slower by itself");
  EXPECT_EQ(faster_baselines_text(c, 30), "");  // it is not SLOWER by that
  c.trials.push_back(c.trials.back());
  EXPECT_EQ(faster_baselines_text(c, 10),
            "2 trials are SLOWER relative to their baselines, but not slower by themselves");
  const std::vector<Complaint> said = slower_trials(report_with({}), report_with({}), c, 10);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].line.find("got 1 trials slower"), std::string::npos) << said[0].line;
}

TEST(SweepExitCode, OneComplaintIsSaidTheOneThatCounts) {
  const std::vector<Complaint> all = {{1, "one"}, {3, "three"}, {5, "five"}, {4, "four"}, {}};
  for (const auto& [count, code] : {std::pair{4, 4}, {3, 5}, {2, 3}, {1, 1}, {0, 0}}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(complain({all.begin(), all.begin() + count}), code);
    const std::string line = testing::internal::GetCapturedStderr();
    EXPECT_EQ(line, code == 0 ? "" : all[count == 4 ? 3 : count == 3 ? 2 : count - 1].line + "\n");
  }
}

}  // namespace
}  // namespace wide::regression_test
