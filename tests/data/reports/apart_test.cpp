// Sweeps over several machines: what stands apart in plots, and what is held against what.
#include "data/reports/apart.h"

#include <gtest/gtest.h>

#include <set>

#include "data/preset.h"
#include "data/reports/suites/suites.h"
#include "data/reports/sweep/compare/compare.h"
#include "data/reports/sweep/figures.h"
#include "data/reports/sweep/report_tables.h"

namespace wide::apart_test {
namespace {

const std::string kA = "a: one CPU, 2 cores", kB = "b: one CPU, 2 cores",
                  kC = "c: another CPU, 2 cores, a GPU";

Case case_on(const std::string& machine, int64_t n, double factor = 1) {
  Case c;
  c.target = "linear";
  c.device = "cpu";
  c.dtype = "f32";
  c.mode = "default";
  c.n = n;
  c.machine = machine;
  const auto timing = [&](const std::string& name, const char* kind, double ns) {
    Timing t;
    t.name = name;
    t.kind = kind;
    for (int i = 0; i < 20; ++i) t.samples_ns.push_back(ns * (1 + 1e-4 * (i * 7 % 11)));
    summarise(t);
    return t;
  };
  for (const char* name : {"loop", "threads"}) c.baselines.push_back(timing(name, "baseline", 1e5));
  Trial t;
  t.strategy = "einsum";
  t.timing = timing("einsum", "candidate", 5e4 * factor);
  t.speedup = speedup_of(c.baselines, t.timing, 0);
  t.verdict = "FASTER";
  c.trials.push_back(t);
  return c;
}

SweepReport report_on(const std::vector<std::string>& machines, bool each, double factor = 1) {
  SweepReport report;
  for (const std::string& machine : machines) {
    Environment e;
    e.host = machine.substr(0, 1);
    e.cpu = machine == kC ? "another CPU" : "one CPU";
    e.gpu = machine == kC ? "a GPU" : "";
    e.cores = 2;
    EXPECT_EQ(machine_name(e), machine);
    (machine == machines.front() ? report.environment : report.machines.emplace_back()) = e;
  }
  for (size_t m = 0; m < machines.size(); ++m)
    for (const int64_t n : {1, 2, 3, 5})
      if (each || static_cast<size_t>(n) % machines.size() == m)
        report.cases.push_back(case_on(machines[m], n, factor));
  return report;
}

TEST(Apart, MachinesThatAreAlikeShareALineUnlessEachMeasuredAll) {
  const auto lines = [](const SweepReport& report) {
    std::multiset<std::string> all;
    for (const Figure& f : figures_of(report.cases, {}))
      for (const Curve& k : f.curves) all.insert(fmt::format("{} {}", f.subtitle, k.points.size()));
    return all;
  };
  using Lines = std::multiset<std::string>;
  const std::string head = "cpu · f32 · default · forward", a = " · " + kA, b = " · " + kB;
  EXPECT_EQ(lines(report_on({kA, kB}, false)), Lines{head + " 4"});
  EXPECT_EQ(lines(report_on({kA, kB}, true)), (Lines{head + a + " 4", head + b + " 4"}));
  EXPECT_EQ(lines(report_on({kA, kC}, false)),
            (Lines{head + " · one CPU, 2 cores 1", head + " · another CPU, 2 cores, a GPU 3"}));
}

TEST(Apart, OneWhoseMachineIsNotKnownIsOfTheOnlyOne) {
  std::vector<Case> cases{case_on("", 1), case_on(kA, 2)};
  EXPECT_FALSE(Apart(cases).several());
  EXPECT_EQ(figures_of(cases, {}).size(), 1u);
  cases.push_back(case_on(kC, 3));
  EXPECT_TRUE(Apart(cases).several());
  EXPECT_EQ(figures_of(cases, {}).size(), 3u);
}

TEST(Apart, TablesNameTheMachine) {
  const auto heads = [](const ReportTable& table) {
    return std::set<std::string>(table.head.begin(), table.head.end());
  };
  const SweepReport alike = report_on({kA, kB}, false), each = report_on({kA, kB}, true);
  EXPECT_EQ(summary_table(alike).rows.size(), 1u);
  EXPECT_FALSE(heads(summary_table(alike)).count("machine"));
  const ReportTable summary = summary_table(each), crossover = crossover_table(each.cases);
  ASSERT_EQ(summary.rows.size(), 2u);
  ASSERT_EQ(crossover.rows.size(), 2u);
  for (const ReportTable* table : {&summary, &crossover}) {
    EXPECT_TRUE(heads(*table).count("machine"));
    for (const auto& row : table->rows) ASSERT_EQ(row.size(), table->head.size());
  }
  EXPECT_EQ(summary.head[1], "machine");
  EXPECT_EQ(summary.rows[1][1].text, kB);
  EXPECT_EQ(summary.head[2], "largest N");
  EXPECT_EQ(summary.rows[1][2].text, "5");
  EXPECT_EQ(crossovers(each.cases)[1].machine, kB);
}

TEST(Apart, SuitesHaveFilesOfEachMachine) {
  const auto names = [](const std::vector<std::string>& machines) {
    SweepReport report = report_on(machines, true);
    for (Case& c : report.cases) c.target = find_preset("components").targets.front();
    std::set<std::string> all;
    for (const auto& file : suite_pages(report).files) {
      all.insert(file.name);
      if (file.name == "suite.md") {
        EXPECT_EQ(
            file.text.find("- machine2: c: another CPU, 2 cores, a GPU\n") != std::string::npos,
            machines.size() > 1)
            << file.text;
      }
    }
    return all;
  };
  const auto one = names({kA}), both = names({kA, kC});
  EXPECT_TRUE(one.count("components.csv") && one.count("components-n2.csv"));
  for (const char* name : {"components-machine1.csv", "components-machine2.csv",
                           "components-n5-machine1.csv", "components-n5-machine2.csv"})
    EXPECT_TRUE(both.count(name)) << name;
  EXPECT_EQ(both.size() - 1, 2 * (one.size() - 1));
}

/// "linear/einsum n=1 on b: FASTER" and so on.
std::multiset<std::string> verdicts(const Comparison& c) {
  std::multiset<std::string> all;
  for (const ComparedTrial& t : c.trials)
    if (t.key.n == 5) all.insert(t.key.machine.substr(0, 1) + " " + t.verdict);
  for (const StatusChange& s : c.statuses)
    if (s.key.n == 5) all.insert(s.key.machine.substr(0, 1) + " " + s.before + ">" + s.after);
  return all;
}

TEST(Apart, EachMachineIsComparedWithItself) {
  using All = std::multiset<std::string>;
  const SweepReport a = report_on({kA}, true), ac = report_on({kA, kC}, true),
                    slow = report_on({kA, kC}, true, 2), b = report_on({kB}, true, 2);
  EXPECT_EQ(verdicts(compare_sweeps(ac, slow)), (All{"a SLOWER", "c SLOWER"}));
  EXPECT_EQ(verdicts(compare_sweeps(slow, ac)), (All{"a FASTER", "c FASTER"}));
  EXPECT_EQ(verdicts(compare_sweeps(a, slow)), (All{"a SLOWER", "c >ok"}));
  EXPECT_EQ(verdicts(compare_sweeps(slow, a)), (All{"a FASTER", "c ok>"}));
  // Another host of equal hardware stands for it; other hardware does not.
  EXPECT_EQ(verdicts(compare_sweeps(ac, b)), (All{"b SLOWER", "c ok>"}));
  EXPECT_EQ(verdicts(compare_sweeps(a, b)), All{" SLOWER"});
  EXPECT_EQ(verdicts(compare_sweeps(a, report_on({kC}, true, 2))), All{" UNCLEAR"});
}

}  // namespace
}  // namespace wide::apart_test
