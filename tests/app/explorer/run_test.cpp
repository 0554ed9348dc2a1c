// What is chosen to run or to fuse, and what the command line would be.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "app/explorer/models/child.h"
#include "app/explorer/models/fusions/fuse.h"
#include "app/explorer/models/trials/run.h"
#include "app/options.h"
#include "app/sweep/part.h"
#include "app/sweep/record.h"
#include "data/reports/sweep/report.h"
#include "data/reports/sweep/report_json.h"
#include "engine/error.h"
#include "tests/app/explorer/stored.h"

namespace wide::run_test {
namespace {

RunChoices choices() {
  RunChoices c;
  c.preset = "ci";
  c.targets = {"conv2d", "linear"};
  c.n = "2,5";
  c.axes = {"linear.D=64"};
  c.modes = {"default"};
  c.dtypes = {"f32"};
  c.devices = {"cpu"};
  c.phases = {"forward"};
  c.budget_s = 0.05;
  return c;
}

TEST(ExplorerRun, PlanIsThatOfTheCommandLine) {
  const RunEstimate estimate = estimate_of(choices());
  ASSERT_EQ(estimate.error, "");
  SweepChoices typed;
  typed.targets = {"conv2d", "linear"};
  typed.n = "2,5";
  typed.axes = {"linear.D=64"};
  const std::vector<SweepCase> expected = sweep_cases(find_preset("ci"), typed);
  EXPECT_EQ(cases_digest(estimate.cases), cases_digest(expected));
  EXPECT_EQ(estimate.trials, count_trials(expected));
  EXPECT_GT(estimate.seconds, 0);
  EXPECT_EQ(command_of(choices()),
            "workbench sweep ci --targets conv2d,linear -n 2,5 --axis linear.D=64 --mode default "
            "--dtype f32 --device cpu --phase forward --budget 0.05");
}

TEST(ExplorerRun, ACommandNamesTheBaselines) {
  RunChoices c = choices();
  c.baselines = {"vmap", "loop"};
  const std::string some = " --phase forward --baselines loop,vmap --budget 0.05";
  EXPECT_TRUE(command_of(c).ends_with(some)) << command_of(c);
  EXPECT_EQ(parse_baselines("loop,vmap"), (std::vector<std::string>{"loop", "vmap"}));
  // This preset times the loop alone: all of them have to be asked for.
  c.preset = "attention-grid";
  c.baselines.clear();
  const std::string all = " --baselines loop,threads,vmap,streams,graph,optimised --budget 0.05";
  EXPECT_TRUE(command_of(c).ends_with(all)) << command_of(c);
  EXPECT_THROW(parse_baselines("loop,lop"), Error);
}

TEST(ExplorerRun, RefusalsAreALine) {
  RunChoices c = choices();
  c.n = "2,many";
  EXPECT_NE(estimate_of(c).error.find("[--n] models: got many"), std::string::npos);
  c = choices();
  c.targets.clear();
  EXPECT_EQ(estimate_of(c).error.find("[run] targets: got none"), 0u);
  c = choices();
  c.budget_s = 0;
  EXPECT_EQ(estimate_of(c).error.find("[run] seconds a trial: got 0"), 0u);
}

TEST(ExplorerRun, TurningABaselineOffLeavesTheOthers) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(baselines_on({"cpu"}), (Names{"loop", "threads", "vmap", "optimised"}));
  EXPECT_EQ(baselines_on({"cuda"}), (Names{"loop", "vmap", "streams", "graph", "optimised"}));
  EXPECT_EQ(baselines_on({"cpu", "cuda"}), baseline_names());
  RunChoices c = choices();
  for (const std::set<std::string>& devices : {std::set<std::string>{"cuda"}, {"cpu"}}) {
    c.devices = devices;
    c.baselines.clear();
    const Names shown = baselines_on(devices);
    std::set<std::string> on(shown.begin(), shown.end());
    on.erase("vmap");
    c.baselines = baselines_with(c, on);
    EXPECT_EQ(c.baselines,
              (std::set<std::string>{"graph", "loop", "optimised", "streams", "threads"}));
    on.insert("vmap");
    EXPECT_EQ(baselines_with(c, on), std::set<std::string>{}) << "all";
  }
}

TEST(ExplorerRun, SecondsThatAreNoNumberAreRefused) {
  double seconds = 2;
  for (const char* text : {"2,5", "5 min", "inf", "nan", "1e999", "-1", "two"}) {
    const std::string error = take_seconds("seconds a trial", text, &seconds);
    EXPECT_EQ(error.find("[run] seconds a trial: got " + std::string(text) + ", expected a number"),
              0u)
        << error;
    EXPECT_EQ(seconds, 2) << text;
    RunChoices c = choices();
    c.unread = error;
    EXPECT_EQ(estimate_of(c).error, error);
    EXPECT_TRUE(estimate_of(c).cases.empty());
  }
  EXPECT_EQ(take_seconds("seconds a trial", "2.5", &seconds), "");
  EXPECT_EQ(seconds, 2.5);
  EXPECT_EQ(take_seconds("seconds a trial", "", &seconds), "");
  EXPECT_EQ(seconds, 0);
}

TEST(ExplorerRun, AStoredSweepIsPlannedAgainAsItWas) {
  RunChoices chosen = choices();
  chosen.targets = {"conv2d", "linear", "embedding"};
  chosen.axes.push_back("embedding.padding_idx=-1");
  const RunEstimate estimate = estimate_of(chosen);
  SweepSettings settings;
  settings.budget_s = 0.05;
  settings.seed = 7;
  settings.threads = 1;
  settings.baselines = {"loop", "vmap"};
  settings.forced = {{"linear", "vmap"}};
  StoreFile file;
  const StoredCases stored =
      cases_to_store("again", estimate.cases, settings, capture_environment("again", "0.1", "abc"));
  Store store = Store::create(file.path());
  const int64_t sweep = store.begin(stored);
  SweepSettings back;
  const std::vector<SweepCase> cases = cases_again(store.stored_cases(sweep), &back);
  EXPECT_EQ(cases_to_store("again", cases, back, stored.environment).cases, stored.cases);
  int64_t embeddings = 0;
  for (const SweepCase& c : cases) {
    if (c.target->name != "embedding") continue;
    ++embeddings;
    EXPECT_EQ(c.shape["padding_idx"], -1);
  }
  EXPECT_GT(embeddings, 0);
  EXPECT_EQ(cases_to_store("again", cases, back, stored.environment).settings, stored.settings);
}

TEST(ExplorerRun, APresetIsTaken) {
  Jobs jobs;
  StoreFile file;
  RunModel model(jobs, file.path());
  model.take_preset("ci");
  ASSERT_TRUE(jobs.finish());
  const RunEstimate& estimate = model.estimate();
  EXPECT_EQ(estimate.error, "");
  EXPECT_EQ(estimate.cases.size(), sweep_cases(find_preset("ci"), {}).size());
  EXPECT_EQ(model.progress().state, RunState::idle);
}

TEST(ExplorerRun, NoPlanIsComputedOnTheWindowsThread) {
  Jobs jobs;
  StoreFile file;
  RunModel model(jobs, file.path());
  RunChoices nothing = choices();
  nothing.targets.clear();
  model.set_choices(nothing);
  ASSERT_TRUE(jobs.finish());
  model.set_choices(choices());
  ASSERT_TRUE(jobs.finish());
  ASSERT_EQ(model.estimate().error, "");
  {
    const OccupiedJobs occupied(jobs);
    EXPECT_EQ(model.preset_seconds("quick"), 0);
    model.start();
    EXPECT_FALSE(model.active());
    EXPECT_TRUE(model.estimating());
    model.resume(1);
    EXPECT_EQ(model.progress().error, "") << "the store was read at once";
    model.set_choices(nothing);
    model.start();
    EXPECT_EQ(model.estimate().error, "");
  }
  ASSERT_TRUE(jobs.finish());
  EXPECT_EQ(model.estimate().error.find("[run] targets: got none"), 0u);
  EXPECT_FALSE(model.active());
  EXPECT_EQ(model.progress().state, RunState::idle);
  RunModel other(jobs, file.path());
  other.take_preset("quick");
  ASSERT_TRUE(jobs.finish());
  EXPECT_GT(model.preset_seconds("quick"), 0);
  EXPECT_EQ(model.preset_seconds("quick"), other.estimate().seconds);
  model.resume(1);
  ASSERT_TRUE(jobs.finish());
  EXPECT_NE(model.progress().error, "");
}

TEST(ExplorerFuse, FilesBecomeChoicesAndArguments) {
  FuseChoices c;
  EXPECT_TRUE(take_files({"/a/net.ts", "/a/w0.safetensors", "/a/w1.safetensors"}, &c));
  c.inputs = "x=2x3:f32 ids=2:i64[0,9)";
  c.share_weights = true;
  EXPECT_EQ(
      fuse_arguments(c, "r.db"),
      (std::vector<std::string>{"fuse", "/a/net.ts", "--weights", "/a/w0.safetensors",
                                "/a/w1.safetensors", "--input", "x=2x3:f32", "--input",
                                "ids=2:i64[0,9)", "--share-weights", "--explain", "--db", "r.db"}));
  FuseChoices copies;
  copies.model = "mlp";
  copies.n = "3";
  EXPECT_EQ(export_arguments(copies, "/b/wide.ts"),
            (std::vector<std::string>{"fuse", "mlp", "-n", "3", "--export", "/b/wide.ts",
                                      "--budget", "0.01", "--no-store"}));
  EXPECT_FALSE(take_files({"/a/picture.png"}, &c));
}

TEST(ExplorerFuse, ProgramsAreThoseOfTheModelsThatWouldBeFused) {
  StoreFile file;
  for (const char* name : {"w0.safetensors", "w1.safetensors", "w2.safetensors"})
    std::ofstream(file.path(name)) << "x";
  FuseChoices c;
  c.model = "net.ts";
  c.weights = {file.path("w*.safetensors")};
  c.n.clear();
  c.share_weights = true;
  EXPECT_EQ(trace_arguments(c),
            (std::vector<std::string>{"trace", "net.ts", "--weights", file.path("w*.safetensors"),
                                      "--wide", "3", "--share-weights", "--steps"}));
  c.n = "1,2";
  EXPECT_EQ(trace_arguments(c)[5], "2");
  c.weights = {file.path("none*.safetensors")};
  c.n.clear();
  EXPECT_EQ(trace_arguments(c)[5], "1") << "the command refuses the weights";
  FuseChoices copies;
  copies.model = "mlp";
  EXPECT_EQ(trace_arguments(copies),
            (std::vector<std::string>{"trace", "mlp", "--wide", "8", "--steps"}));
  copies.n.clear();
  EXPECT_EQ(trace_arguments(copies)[3], "2");
}

TEST(ExplorerFuse, FigureAndSharesAreWhatTheReportSays) {
  const FuseReport report = shown_fusion();
  ASSERT_EQ(report.curve.size(), 2u);
  EXPECT_EQ(shown_speedup(report.curve[0], false).value, 2);
  EXPECT_EQ(shown_speedup(report.curve[0], true).value, 4);
  const std::vector<WayShare> shares = way_shares(report.curve[1]);
  EXPECT_DOUBLE_EQ(shares[0].nodes, 0.75);
  EXPECT_DOUBLE_EQ(shares[3].nodes, 0.25);
  FuseResult without;
  EXPECT_EQ(shown_speedup(without, false).value, 0);
  EXPECT_EQ(way_shares(without)[0].nodes, 0);
  for (const bool over_loop : {false, true}) {
    const Figure figure = fuse_figure(report, over_loop);
    ASSERT_EQ(figure.curves.size(), 1u);
    const std::vector<CurvePoint>& points = figure.curves[0].points;
    ASSERT_EQ(points.size(), 2u);
    EXPECT_EQ(points[0].n, 2);
    EXPECT_EQ(points[0].value, over_loop ? 4 : 2);
    EXPECT_EQ(points[0].low, over_loop ? 3 : 1.5);
    EXPECT_EQ(points[0].high, over_loop ? 5 : 2.5);
    EXPECT_DOUBLE_EQ(*points[0].error, 2e-7);
    EXPECT_FALSE(points[1].value) << "an incorrect one has no speed";
    EXPECT_TRUE(points[1].incorrect);
    EXPECT_EQ(figure.over, over_loop ? "the loop" : "the best baseline");
    ASSERT_EQ(figure.allowances.size(), 2u);
    EXPECT_DOUBLE_EQ(figure.allowances[0].allowed, 1e-3);
  }
}

TEST(ExplorerChild, RunsThisProgramAndSurvivesItsEnd) {
  Child child;
  child.start({"sweep", "--no-such-option"});
  while (child.running()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(child.code(), 2);
  EXPECT_NE(child.output().find("[workbench sweep] usage"), std::string::npos);
  // What a long command prints is there from its first line on.
  child.start({"trace", "resnet18", "--wide", "2", "--steps"});
  while (child.running()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(child.code(), 0);
  EXPECT_GT(child.output().size(), 100'000u);
  EXPECT_TRUE(child.output().starts_with("# resnet18: one model as recorded\n"));
  EXPECT_LE(child.last_lines().size(), 4000u);
  EXPECT_TRUE(child.output().ends_with("\n" + child.last_lines()));
  child.start({"worker"});  // which waits for a sweep, and gets none
  child.stop();
  while (child.running()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_NE(child.code(), 0);
}

}  // namespace
}  // namespace wide::run_test
