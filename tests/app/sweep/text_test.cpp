// The summary of a sweep fits a screen with all targets, and says what to do next.
#include "app/sweep/text.h"
#include "data/reports/sweep/report_tables.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "app/sweep/summary.h"

namespace wide::text_test {
namespace {

Case one_case(const std::string& target, int64_t n, double speedup) {
  Case c;
  c.target = target;
  c.shape = "B8";
  c.dtype = "f32";
  c.device = "cpu";
  c.mode = "default";
  c.n = n;
  c.seconds = {0.1, 0.2, 0.1, 0, 0.5, 1};
  Trial t;
  t.strategy = t.timing.name = "fused";
  t.timing.median_ns = 1e6;
  t.speedup = Speedup{Interval{speedup, speedup, speedup}, {speedup, speedup, speedup}, "loop"};
  t.verdict = "FASTER";
  c.trials = {t};
  return c;
}

SweepReport report_of(int targets) {
  SweepReport report;
  report.name = "quick";
  for (int i = 0; i < targets; ++i)
    for (const int64_t n : {4, 32})
      report.cases.push_back(one_case("target" + std::to_string(i), n, i + 1));
  return report;
}

int64_t lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(SweepText, TimesOfAnyLength) {
  EXPECT_EQ(duration_text(-1), "0 s");
  EXPECT_EQ(duration_text(61), "1 min 1 s");
  EXPECT_EQ(duration_text(7200), "2 h 0 min");
  EXPECT_EQ(duration_text(1e308), "more than 1000000 h");
}

TEST(SweepText, SummaryOfAllTargetsFitsAScreen) {
  const std::string text = summary_text(report_of(29));
  EXPECT_LE(lines(text), 36);
  EXPECT_NE(text.find("time: 58 s: timing 50 %, compiling and tuning 20 %, checking 10 %"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  next: workbench fuse"), std::string::npos);
}

TEST(SweepText, TopShowsTheLargestSpeedupsAndWhatIsWrong) {
  SweepReport report = report_of(29);
  report.cases[2].trials[0].status = Status::incorrect;
  report.cases[2].trials[0].reason = "[target1/fused] value: too far";
  report.cases[2].trials[0].speedup.reset();
  const std::string text = summary_text(report, {2, {}, "", {}});
  EXPECT_NE(text.find("target28 "), std::string::npos) << text;
  EXPECT_NE(text.find("target27 "), std::string::npos);
  EXPECT_NE(text.find("target1 "), std::string::npos);
  EXPECT_EQ(text.find("target26 "), std::string::npos);
  EXPECT_NE(text.find("and 26 more; --top 0 shows all"), std::string::npos);
  EXPECT_NE(text.find("next: workbench trace target1 --wide 4"), std::string::npos);
}

TEST(SweepText, WhatWasCutShortIsNotBadAndWhatDidNotFitIs) {
  SweepReport report = report_of(4);
  const auto summary = [&](Status status) {
    report.cases[0].trials[0].status = status;
    return summary_text(report, {1, {}, "", {}});  // beyond the first, only rows with something bad
  };
  for (const Status status : {Status::cancelled, Status::interrupted, Status::skipped}) {
    const std::string text = summary(status);
    EXPECT_EQ(text.find("target0 "), std::string::npos) << text;
    EXPECT_EQ(text.find("next: workbench trace"), std::string::npos) << text;
  }
  for (const Status status : {Status::oom, Status::timeout, Status::crashed}) {
    const std::string text = summary(status);
    EXPECT_NE(text.find("target0 "), std::string::npos) << text;
    EXPECT_NE(text.find("next: workbench trace target0"), std::string::npos) << text;
  }
}

TEST(SweepText, KindsOfOneTargetHaveLinesOfTheirOwn) {
  SweepReport report = report_of(1);
  report.cases.push_back(report.cases[0]);
  report.cases.back().dtype = "f64";
  const std::string text = summary_text(report);
  EXPECT_NE(text.find("target0 f32"), std::string::npos) << text;
  EXPECT_NE(text.find("target0 f64"), std::string::npos) << text;
}

/// Of several shapes at the largest N every summary shows the one whose best strategy gains least.
TEST(SweepText, SummariesShowTheShapeThatGainsLeast) {
  SweepReport report;
  for (const double speedup : {7, 3, 5}) {
    Case c = one_case("target0", 32, speedup);
    c.shape = fmt::format("B{}", speedup);
    c.trials.push_back(c.trials[0]);
    c.trials[1].strategy = "slower";
    c.trials[1].speedup->vs_best.value = 1;
    report.cases.push_back(c);
  }
  report.cases.push_back(one_case("target0", 4, 2));
  report.cases.insert(report.cases.begin(), report.cases[0]);
  report.cases[0].trials[0].status = report.cases[0].trials[1].status = Status::incorrect;
  const ReportTable table = summary_table(report);
  ASSERT_EQ(table.rows.size(), 1u);
  const auto cell = [&](const std::string& head) {
    const auto at = std::find(table.head.begin(), table.head.end(), head) - table.head.begin();
    return table.rows[0].at(static_cast<size_t>(at));
  };
  EXPECT_EQ(cell("shape").text, "B3");
  EXPECT_EQ(cell("over best baseline").value, 3);
  EXPECT_EQ(cell("ok").text, "7");
  EXPECT_EQ(cell("incorrect").text, "2");
  const std::string text = summary_text(report);
  EXPECT_NE(text.find("  32  B3     fused          3.00x [3.00, 3.00]"), std::string::npos) << text;
}

TEST(SweepText, PublishedFiguresStandBesideTheirN) {
  const std::string text =
      summary_text(report_of(2), {0, {{"target1", {{4, 7.5}, {32, 8.8}}}}, "from elsewhere", {}});
  EXPECT_NE(text.find("7.5x\n"), std::string::npos) << text;
  EXPECT_NE(text.find("8.8x\n"), std::string::npos);
  EXPECT_NE(text.find("published: from elsewhere"), std::string::npos);
}

TEST(SweepText, DisturbedCasesAreMarkedCountedAndSayWhatToDo) {
  SweepReport report = report_of(2);
  EXPECT_EQ(summary_text(report).find("disturbed"), std::string::npos);
  EXPECT_EQ(cases_text(report.cases).find("disturbed"), std::string::npos);
  Case& last = report.cases.back();
  last.disturbed = true;
  last.other_load = 0.48;
  last.trials[0].verdict = "UNCLEAR";
  EXPECT_NE(cases_text({last}).find("UNCLEAR, disturbed\n"), std::string::npos);
  const std::string text = summary_text(report);
  EXPECT_NE(text.find("2.00x [2.00, 2.00] disturbed"), std::string::npos) << text;
  EXPECT_NE(
      text.find("\n  1 of 4 cases is disturbed, UNCLEAR: other programs took up to 48 % of the "
                "cores; --resume --again disturbed measures just that again\n"),
      std::string::npos)
      << text;
}

TEST(SweepText, WithoutALoopThatColumnIsEmpty) {
  SweepReport report = report_of(1);
  for (Case& c : report.cases) c.trials[0].speedup->vs_loop.reset();
  EXPECT_EQ((summary_text(report) + cases_text(report.cases)).find("0.00x"), std::string::npos);
}

TEST(SweepText, NotesOnBaselinesAreSaidOnce) {
  SweepReport report = report_of(1);
  for (Case& c : report.cases) c.notes = {"baseline vmap is not available: no rule"};
  EXPECT_NE(
      cases_text(report.cases).find("\n  note: baseline vmap is not available: no rule (2x)\n"),
      std::string::npos);
}

}  // namespace
}  // namespace wide::text_test
