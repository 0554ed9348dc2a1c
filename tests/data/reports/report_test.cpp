#include "data/reports/sweep/report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/one_line.h"
#include "data/preset.h"
#include "data/reports/report_format.h"
#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_read.h"
#include "data/reports/sweep/report_tables.h"
#include "data/text.h"
#include "engine/error.h"
#include "tests/data/python.h"

namespace wide::report_test {
namespace {

Timing timing(const std::string& name, const std::string& kind, double ns) {
  Timing t;
  t.name = name;
  t.kind = kind;
  for (int i = 0; i < 20; ++i) t.samples_ns.push_back(ns * (1 + 0.001 * (i % 5)));
  t.calls_per_sample = 3;
  summarise(t);
  return t;
}

Case make_case(int64_t n, const std::string& verdict, Status status = Status::ok) {
  Case c;
  c.target = "linear";
  c.shape = "B16 D256";
  c.n = n;
  c.baselines = {timing("loop", "baseline", 100), timing("vmap", "baseline", 50)};
  Trial t;
  t.strategy = "einsum";
  t.status = status;
  t.timing = timing("einsum", "candidate", 25);
  t.speedup = speedup_of(c.baselines, t.timing, 0);
  t.verdict = verdict;
  t.correctness = Correctness{};
  c.trials.push_back(t);
  return c;
}

TEST(Report, SpeedupIsOverTheLoopAndTheBest) {
  const Case c = make_case(4, "FASTER");
  EXPECT_EQ(c.trials[0].speedup->best_baseline, "vmap");
  EXPECT_NEAR(c.trials[0].speedup->vs_loop->value, 4, 0.05);
  EXPECT_NEAR(c.trials[0].speedup->vs_best.value, 2, 0.05);
}

TEST(Report, TheBestBaselineIsTheFastestWhileTheCandidateWasTimed) {
  // In rounds without the candidate the machine was faster, and only one baseline was still timed.
  Timing early = timing("early", "baseline", 80), late = timing("late", "baseline", 100);
  for (int i = 0; i < 60; ++i) late.samples_ns.push_back(40);
  summarise(late);
  ASSERT_LT(late.median_ns, early.median_ns);
  const Speedup found = speedup_of({late, early}, timing("einsum", "candidate", 40), 0);
  EXPECT_EQ(found.best_baseline, "early");
  EXPECT_NEAR(found.vs_best.value, 2, 0.05);
}

TEST(Report, CrossoverIsTheSmallestNFromWhichAllAreFaster) {
  const auto crossover = [](std::vector<Case> cases) { return crossovers(cases).at(0).n; };
  EXPECT_EQ(crossover({make_case(4, "SLOWER"), make_case(8, "FASTER"), make_case(16, "FASTER")}),
            8);
  EXPECT_EQ(crossover({make_case(16, "FASTER"), make_case(4, "FASTER"), make_case(8, "SAME")}), 16);
  EXPECT_EQ(crossover({make_case(4, "FASTER"), make_case(8, "FASTER", Status::incorrect)}),
            std::nullopt);
  EXPECT_EQ(crossover({make_case(4, "UNCLEAR")}), std::nullopt);
}

TEST(Report, CrossoversOfKindsOfHardwareAreApart) {
  std::vector<Case> cases{make_case(4, "SLOWER"), make_case(8, "FASTER"), make_case(16, "FASTER")};
  cases[0].machine = "a: one CPU, 2 cores";
  cases[1].machine = "b: one CPU, 2 cores";
  cases[2].machine = "c: one CPU, 4 cores";
  EXPECT_EQ(crossovers(cases).size(), 2u);
  cases[2].machine = "c: one CPU, 2 cores";
  const std::vector<Crossover> found = crossovers(cases);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].n, 8);
}

TEST(Report, CrossoversOfPhasesAreApart) {
  Case forward = make_case(4, "FASTER"), backward = make_case(8, "SLOWER");
  backward.phase = "backward";
  const std::vector<Crossover> found = crossovers({forward, backward});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].phase, "forward");
  EXPECT_EQ(found[0].n, 4);
  EXPECT_EQ(found[1].phase, "backward");
  EXPECT_EQ(found[1].n, std::nullopt);
  SweepReport report;
  report.cases = {forward, backward};
  EXPECT_EQ(to_json(report)["crossover"][1]["phase"], "backward");
  EXPECT_EQ(crossover_table(report.cases).rows.size(), 2u);
}

/// Every format of a report of this one case.
std::string in_all_formats(const Case& c) {
  SweepReport report;
  report.cases = {c};
  std::string all;
  for (const ReportFormat& format : report_formats()) {
    const std::string text = format.text(report, {});
    const std::string mark = format.name == "json"  ? "\"disturbed\": true"
                             : format.name == "csv" ? ",true,"
                                                    : "disturbed";
    EXPECT_EQ(text.find(mark) != std::string::npos, c.disturbed) << format.name;
    all += text;
  }
  return all;
}

TEST(Report, WithoutALoopNothingIsSaidOfIt) {
  Case c = make_case(4, "FASTER");
  c.baselines.erase(c.baselines.begin());
  c.trials[0].speedup = speedup_of(c.baselines, c.trials[0].timing, 0);
  EXPECT_FALSE(c.trials[0].speedup->vs_loop);
  EXPECT_FALSE(to_json(c)["trials"][0]["speedup"].contains("vs_loop"));
  EXPECT_EQ(in_all_formats(c).find("0.00x"), std::string::npos);
  const Case back = case_from_json(to_json(c), "x");
  EXPECT_FALSE(back.trials[0].speedup->vs_loop);
  // As it was written before: zeros.
  auto old = to_json(c);
  old["trials"][0]["speedup"]["vs_loop"] = {{"value", 0.0}, {"ci95", {0.0, 0.0}}};
  EXPECT_FALSE(case_from_json(old, "x").trials[0].speedup->vs_loop);
  FuseReport fuse;
  fuse.curve.resize(1);
  fuse.curve[0].correctness.pass = true;
  fuse.curve[0].speedup = c.trials[0].speedup;
  EXPECT_FALSE(to_json(fuse)["speedup"].contains("vs_loop"));
}

TEST(Report, ADisturbedCaseIsMarkedInEveryFormat) {
  Case c = make_case(4, "UNCLEAR");
  EXPECT_EQ(disturbed_text({c}), "");
  c.disturbed = true;
  c.other_load = 0.48;
  EXPECT_EQ(disturbed_text({c, make_case(8, "FASTER")}),
            "1 of 2 cases is disturbed, UNCLEAR: other programs took up to 48 % of the cores; "
            "--resume --again disturbed measures just that again");
  in_all_formats(c);
}

TEST(Report, NotesOnBaselinesComeBackAndAreShown) {
  Case c = make_case(4, "FASTER");
  c.notes = {"baseline vmap is not available: no rule"};
  EXPECT_EQ(case_from_json(to_json(c), "x").notes, c.notes);
  auto old = to_json(c);
  old.erase("notes");
  EXPECT_TRUE(case_from_json(old, "x").notes.empty());
  EXPECT_EQ(reason_table({c}).rows.at(0).at(3).text, c.notes[0]);
}

TEST(Report, ReasonsHaveEachNOnceAndSayWhereTheyHold) {
  std::vector<Case> cases;
  for (const char* mode : {"default", "eager"})
    for (const char* phase : {"forward", "backward"})
      for (const int64_t n : {3, 1}) {
        Case& c = cases.emplace_back(make_case(n, "", Status::unsupported));
        c.mode = mode;
        c.phase = phase;
        c.trials[0].reason = "no rule";
        if (c.phase == "backward") c.notes = {"vmap has no gradient"};
        if (c.phase == "backward" && c.mode == "eager" && n == 3) c.notes.push_back("once");
      }
  const ReportTable table = reason_table(cases);
  EXPECT_EQ(table.csv(),
            "strategy,status,N,only,reason\n"
            "einsum,unsupported,\"1, 3\",,\"no rule\"\n"
            "baselines,note,\"1, 3\",backward,\"vmap has no gradient\"\n"
            "baselines,note,3,\"eager · backward\",once\n");
  EXPECT_EQ(reason_table({cases[0], cases[1], cases[4]}).csv(),
            "strategy,status,N,reason\neinsum,unsupported,\"1, 3\",\"no rule\"\n");
}

TEST(Report, WhatWasNotRunIsNoFailure) {
  SweepReport report;
  for (const Status status : {Status::ok, Status::skipped, Status::interrupted, Status::cancelled,
                              Status::timeout, Status::unsupported})
    report.cases.push_back(make_case(4, "FASTER", status));
  const ReportTable table = summary_table(report);
  std::map<std::string, std::string> row;
  for (size_t i = 0; i < table.head.size(); ++i) row[table.head[i]] = table.rows.at(0).at(i).text;
  EXPECT_EQ(row["ok"], "1");
  EXPECT_EQ(row["failed"], "1");
  EXPECT_EQ(row["unsupported"], "1");
  EXPECT_EQ(row.at("not run"), "3");
  report.cases.resize(1);
  EXPECT_EQ(summary_table(report).head.size(), table.head.size() - 1);
}

TEST(Report, IncorrectTrialsHaveNoSpeedup) {
  SweepReport report;
  report.cases = {make_case(4, "FASTER"), make_case(8, "FASTER", Status::incorrect)};
  const auto j = to_json(report);
  EXPECT_TRUE(j["cases"][0]["trials"][0]["speedup"].is_object());
  EXPECT_EQ(j["cases"][0]["trials"][0]["speedup"]["vs_best_baseline"]["name"], "vmap");
  EXPECT_EQ(j["cases"][0]["trials"][0]["verdict"], "FASTER");
  EXPECT_TRUE(j["cases"][1]["trials"][0]["speedup"].is_null());
  EXPECT_EQ(j["cases"][1]["trials"][0]["status"], "incorrect");
  EXPECT_TRUE(j["crossover"][0]["n"].is_null());
  EXPECT_TRUE(j["environment"]["gpu"].is_null());
  EXPECT_EQ(j["environment"]["gpu_note"], "not run on a GPU");

  FuseReport fuse;
  FuseResult r;
  r.n = 3;
  r.speedup = report.cases[0].trials[0].speedup;
  fuse.curve = {r};
  EXPECT_TRUE(to_json(fuse)["speedup"].is_null());  // the check did not pass
  fuse.curve[0].correctness.pass = true;
  EXPECT_NEAR(to_json(fuse)["speedup"]["vs_loop"].get<double>(), 4, 0.05);
  EXPECT_FALSE(to_json(fuse).contains("curve"));
  fuse.curve.push_back(fuse.curve[0]);
  EXPECT_EQ(to_json(fuse)["curve"].size(), 2u);
}

TEST(Report, EnvironmentIsCaptured) {
  const Environment e = capture_environment("workbench list", "1.2.3", "abc");
  EXPECT_FALSE(e.cpu.empty());
  EXPECT_GT(e.cores, 0);
  EXPECT_GT(e.memory_bytes, 0);
  EXPECT_EQ(e.libtorch.rfind("2.11", 0), 0u);
  EXPECT_GT(available_memory(), 0);
  const char* argv[] = {"workbench", "fuse", "a b", "it's"};
  EXPECT_EQ(command_line(4, argv), "workbench fuse 'a b' 'it'\\''s'");
}

TEST(Report, AnUnwritableReportIsAnEnvironmentError) {
  try {
    write_json("/nowhere/out.json", nlohmann::ordered_json::object());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code(), 1);
    EXPECT_STREQ(e.what(),
                 "[/nowhere/out.json] writing: got No such file or directory, expected a place to "
                 "write; try another path");
  }
}

TEST(Presets, ThoseOfTheProgramAreGood) {
  std::vector<std::string> names;
  for (const Preset& p : presets()) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"attention-grid", "ci", "components", "full", "models",
                                             "published", "quick", "transformer-sizes"}));
  EXPECT_EQ(find_preset("ci").sweep, "ci");
}

TEST(Presets, SchemaOneCalledModeDefaultEager) {
  const auto modes_of = [](const char* schema, const char* modes) {
    return parse_preset(
               fmt::format(R"({{"schema":{},"targets":["linear"],"modes":{}}})", schema, modes),
               "mine.json")
        .modes;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(modes_of("1", R"(["eager"])"), Names{"default"});
  EXPECT_EQ(modes_of("1", R"(["eager","default"])"), Names{"default"});
  EXPECT_EQ(modes_of("2", R"(["eager","default"])"), (Names{"eager", "default"}));
}

TEST(Presets, UnknownKeysAndValuesAreRefusedByName) {
  const Scratch scratch;
  const std::string path = scratch / "p.json", head = "[" + path + "] ";
  const auto refused = [&](const std::string& text) {
    write_text(path, text);
    return error_of([&] { find_preset(path); });
  };
  EXPECT_EQ(refused(R"({"schema":2,"targets":["linear"],"budgets":1})"),
            head +
                "key: got budgets, expected one of axes, baselines, budget_s, description, "
                "devices, dtypes, min_samples, modes, n, name, phases, schema, strategies, "
                "sweep, targets; try budget_s");
  EXPECT_EQ(refused(R"({"schema":3,"targets":["linear"]})"),
            head + "schema: got 3, expected 2; try \"schema\": 2");
  EXPECT_EQ(refused(R"({"schema":2})"),
            head + "targets: got none, expected at least one; try primitives");
  EXPECT_EQ(refused(R"({"schema":2,"targets":"linear"})"),
            head + "targets: got \"linear\", expected a list of names; try [\"...\"]");
  EXPECT_EQ(refused(R"({"schema":2,"targets":["linear"],"sweep":"huge"})"),
            head + "sweep: got huge, expected quick, full, ci, suite; try quick");
  EXPECT_EQ(refused(R"({"schema":2,"targets":["linear"],"n":[0]})"),
            head + "n: got 0, expected positive numbers up to 1000000000; try 4");
  EXPECT_EQ(refused(R"({"schema":2,"targets":["linear"],"phases":["sideways"]})"),
            head + "phases: got sideways, expected forward, backward, step; try forward");
  EXPECT_EQ(refused("[1]"), head +
                                "preset: got array, expected an object; try the presets in "
                                "presets/");
  EXPECT_EQ(
      error_of([] { find_preset("quik"); }),
      "[quik] sweep: got no such preset, expected attention-grid, ci, components, full, models, "
      "published, quick, transformer-sizes or a .json file; try quick");
}

TEST(Text, OneLineWhateverIsThrown) {
  EXPECT_EQ(one_line(std::runtime_error("first\nsecond")), "first");
  EXPECT_EQ(one_line(std::runtime_error(
                "The following operation failed in the TorchScript interpreter.\nTraceback of "
                "TorchScript (most recent call last):\n  file x\nRuntimeError: the cause\n")),
            "the cause");
  EXPECT_EQ(printable("a\tb"), "a\\x09b");
  EXPECT_EQ(listing({"a", "b", "c", "d"}, 2), "a, b and 2 more");
  EXPECT_EQ(nearest("lenear", {"linear", "lstm"}), "linear");
  EXPECT_EQ(nearest("zzz", {"linear", "lstm"}), "");
  EXPECT_EQ(time_text(1234567), "1.23 ms");
  EXPECT_EQ(bytes_text(1.5e6), "1.5 MB");
}

}  // namespace
}  // namespace wide::report_test
