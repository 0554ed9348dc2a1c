#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "data/reports/sweep/report.h"
#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_read.h"
#include "tests/data/python.h"

namespace wide::report_read_test {
namespace {

using Json = nlohmann::ordered_json;

Timing timing(const std::string& name, const std::string& kind, double ns) {
  Timing t;
  t.name = name;
  t.kind = kind;
  for (int i = 0; i < 12; ++i) t.samples_ns.push_back(ns + 0.1 * i);
  t.calls_per_sample = 7;
  t.first_call_ns = 12.5 * ns;
  t.peak_bytes = int64_t{1} << 40;
  t.flops_share = kind == "baseline" ? 0 : 0.61;
  t.with_packing_ns = kind == "baseline" ? 0 : 1.5 * ns;
  t.cold_ns = kind == "baseline" ? 0 : 2 * ns;
  t.flops = 3e9;
  t.bytes = 4e6;
  t.steps = 12;
  t.bound = "launch";
  summarise(t);
  return t;
}

SweepReport sample_report() {
  SweepReport report;
  report.id = "17";
  report.name = "a \"name\"";
  report.command = "workbench sweep ci";
  report.state = "cancelled";
  report.environment = capture_environment("workbench sweep ci", "1.2.3", "abc");
  report.environment.peak_flops_per_s = {{"f32", 2.5e11}, {"bf16", 1e11}};
  report.environment.peak_bytes_per_s = 3e10;
  report.environment.bandwidth = {{1e6, 9e10}, {5e8, 3e10}};
  report.environment.step_ns = 412.5;
  report.environment.throttles = 4;
  report.changes = {"governor: performance, then powersave"};
  Case c;
  c.other_load = 0.25;
  c.disturbed = true;
  c.target = "linear";
  c.shape = "B16 D256";
  c.dtype = "f32";
  c.device = "cpu";
  c.mode = "default";
  c.n = 5;
  c.baselines = {timing("loop", "baseline", 100), timing("threads", "baseline", 70)};
  Trial good;
  good.strategy = "einsum";
  good.chosen = true;
  good.timing = timing("einsum", "candidate", 31);
  good.speedup = speedup_of(c.baselines, good.timing, 0);
  good.verdict = "FASTER";
  good.correctness = Correctness{1e-7, 2e-7, 2e-4, true, true, true, "a note", ""};
  Trial wrong = good;
  wrong.status = Status::incorrect;
  wrong.reason = "output 0 of model 3";
  wrong.speedup.reset();
  wrong.verdict.clear();
  wrong.chosen = false;
  wrong.correctness->max_rel = std::numeric_limits<double>::quiet_NaN();
  Trial late;
  late.strategy = "vmap";
  late.timing.name = "vmap";
  late.timing.kind = "candidate";
  late.status = Status::timeout;
  late.reason = "60 s";
  c.trials = {good, wrong, late};
  report.cases = {c};
  return report;
}

TEST(ReportRead, EveryFieldComesBack) {
  // Through text, as files and pipes carry it: not a field may be lost or changed by a digit.
  const std::string written = to_json(sample_report()).dump();
  const SweepReport back = sweep_from_json(Json::parse(written), "x");
  EXPECT_EQ(to_json(back).dump(), written);
  EXPECT_EQ(back.cases[0].trials[2].status, Status::timeout);
  EXPECT_EQ(back.cases[0].trials[0].speedup->best_baseline, "threads");
  EXPECT_EQ(back.cases[0].trials[0].timing.samples_ns.size(), 12u);
  EXPECT_EQ(back.environment.cpu, sample_report().environment.cpu);
}

TEST(ReportRead, SchemaOneCalledModeDefaultEager) {
  SweepReport report = sample_report();
  report.cases.push_back(report.cases[0]);
  report.cases[0].mode = "eager";
  Json json = Json::parse(to_json(report).dump());
  EXPECT_EQ(sweep_from_json(json, "x").cases.at(0).mode, "eager");
  EXPECT_EQ(sweep_from_json(json, "x").cases.size(), 2u);
  json["schema"] = 1;  // what it calls default did not exist then
  const SweepReport old = sweep_from_json(json, "x");
  ASSERT_EQ(old.cases.size(), 1u);
  EXPECT_EQ(old.cases[0].mode, "default");
  EXPECT_EQ(old.cases[0].trials[0].timing.samples_ns, report.cases[0].trials[0].timing.samples_ns);
}

TEST(ReportRead, WhatIsMissingOrWrongIsNamed) {
  const auto refused = [](const std::function<void(Json&)>& spoil) {
    Json json = Json::parse(to_json(sample_report()).dump());
    spoil(json);
    return error_of([&] { sweep_from_json(json, "r.json"); });
  };
  const std::string end = "; try a report that the workbench wrote";
  EXPECT_EQ(refused([](Json& j) { j["cases"][0].erase("n"); }),
            "[r.json: cases] n: got nothing, expected a value" + end);
  EXPECT_EQ(refused([](Json& j) { j["cases"][0]["n"] = "5"; }),
            "[r.json: cases] n: got \"5\", expected an integer" + end);
  EXPECT_EQ(refused([](Json& j) { j["cases"][0]["trials"][0]["samples_ns"][3] = "fast"; }),
            "[r.json: cases: trials] samples_ns: got \"fast\", expected numbers" + end);
  EXPECT_EQ(refused([](Json& j) { j["schema"] = 99; }),
            "[r.json] schema: got 99, expected 2; try the workbench that wrote it");
  EXPECT_EQ(refused([](Json& j) { j["cases"][0]["trials"][0]["status"] = "good"; }),
            "[status] word: got good, expected one of ok, incorrect, unsupported, oom, timeout, "
            "crashed, cancelled, interrupted, skipped; try ok");
  EXPECT_EQ(error_of([] { sweep_from_json(Json::array(), "r.json"); }),
            "[r.json] JSON: got array, expected an object" + end);
}

TEST(ReportRead, FilesThatAreNoReportAreRefused) {
  const Scratch scratch;
  EXPECT_EQ(error_of([] { read_sweep_report("/nowhere/r.json"); }),
            "[/nowhere/r.json] reading: got no such file, expected a sweep's JSON report; try "
            "workbench list sweeps");
  const std::string path = scratch / "r.json";
  write_text(path, "{");
  EXPECT_EQ(error_of([&] { read_sweep_report(path); }).substr(0, path.size() + 12),
            "[" + path + "] JSON: got");
  write_json(path, to_json(sample_report()));
  EXPECT_EQ(read_sweep_report(path).cases.size(), 1u);
}

}  // namespace
}  // namespace wide::report_read_test
