// What the window shows, without a window.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "app/explorer/ui/samples.h"
#include "engine/error.h"
#include "tests/app/explorer/stored.h"

namespace wide::models_test {
namespace {

/// The rows a filter leaves, as "target/strategy@n".
std::vector<std::string> kept(const TrialTable& table, const std::string& filter,
                              const std::vector<SortKey>& sort = {}) {
  std::vector<std::string> names;
  for (const uint32_t i : arrange(table, Filter(filter), sort))
    names.push_back(fmt::format("{}/{}@{}", table.word(table.rows[i].target),
                                table.word(table.rows[i].strategy), table.rows[i].n));
  return names;
}
using Names = std::vector<std::string>;

class ExplorerModels : public ::testing::Test {
 protected:
  void SetUp() override {
    sweep_ = store_sweep(file_.path(), {"linear", "conv2d"}, {2, 8});
    table_ = std::make_unique<TrialTable>(Store::read(file_.path()).trials(sweep_));
  }
  StoreFile file_;
  int64_t sweep_ = 0;
  std::unique_ptr<TrialTable> table_;
};

TEST_F(ExplorerModels, RowsAreWhatTheStoreLoads) {
  const SweepReport report = Store::read(file_.path()).load(sweep_);
  size_t next = 0;
  for (const Case& c : report.cases)
    for (const Trial& t : c.trials) {
      const TrialRow& row = table_->rows.at(next++);
      EXPECT_FALSE(row.baseline);
      EXPECT_EQ(table_->word(row.target), c.target);
      EXPECT_EQ(table_->word(row.strategy), t.strategy);
      EXPECT_EQ(table_->word(row.status), to_string(t.status));
      EXPECT_EQ(table_->word(row.reason), t.reason);
      EXPECT_EQ(row.n, c.n);
      EXPECT_EQ(row.chosen, t.chosen);
      if (t.timing.median_ns > 0) {
        EXPECT_EQ(row.median_ns, t.timing.median_ns);
      }
      EXPECT_EQ(std::isnan(row.vs_best), !t.speedup);
      if (t.speedup) {
        EXPECT_EQ(row.vs_best_high, t.speedup->vs_best.high);
      }
      if (t.correctness) {
        EXPECT_EQ(row.max_rel, t.correctness->max_rel);
      }
    }
  for (const Case& c : report.cases)
    for (const Timing& b : c.baselines) {
      const TrialRow& row = table_->rows.at(next++);
      EXPECT_TRUE(row.baseline);
      EXPECT_EQ(table_->word(row.strategy), b.name);
      EXPECT_EQ(row.median_ns, b.median_ns);
    }
  EXPECT_EQ(next, table_->rows.size());
  // One case alone is what the whole sweep has of it, samples and all.
  const auto one = Store::read(file_.path()).load_case(table_->rows.front().case_id);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->trials[0].timing.samples_ns, report.cases[0].trials[0].timing.samples_ns);
  EXPECT_FALSE(Store::read(file_.path()).load_case(4711));
}

TEST_F(ExplorerModels, FilterKeepsWhatItSays) {
  EXPECT_EQ(kept(*table_, "").size(), 20u);
  EXPECT_EQ(kept(*table_, "strategy:s1 n>=8"), (Names{"linear/s1@8", "conv2d/s1@8"}));
  EXPECT_EQ(kept(*table_, "speedup<1.5"), (Names{"linear/s1@2", "conv2d/s1@2"}));
  EXPECT_EQ(kept(*table_, "status:incorrect,crash target=linear n=8"),
            (Names{"linear/s3@8", "linear/s5@8"}));
  EXPECT_EQ(kept(*table_, "-status:ok -unsupported -crashed"),
            (Names{"linear/s3@8", "conv2d/s3@8"}));
  EXPECT_EQ(kept(*table_, "error>10%"), (Names{"linear/s3@8", "conv2d/s3@8"}));
  EXPECT_EQ(kept(*table_, "chosen:yes conv n<4"), (Names{"conv2d/s2@2"}));
  EXPECT_EQ(kept(*table_, "status!=ok n=2 linear"), (Names{"linear/s4@2", "linear/s5@2"}));
  EXPECT_EQ(kept(*table_, "\"B16 D256\" s2 linear n=2"), (Names{"linear/s2@2"}));
}

TEST(ExplorerFilter, ANumberFindsItsRowsAndNoNeighbours) {
  StoreFile file;
  const int64_t sweep = store_sweep(file.path(), {"linear"}, {255, 256});
  const TrialTable table = Store::read(file.path()).trials(sweep);
  EXPECT_EQ(kept(table, "n=256 s1"), (Names{"linear/s1@256"}));
  EXPECT_EQ(kept(table, "n!=256 s1"), (Names{"linear/s1@255"}));
  EXPECT_EQ(kept(table, "n=255.9 s1"), Names());
  // The speedup of strategy s is s + N / 8: 32.875, which the table shows as 32.9, and 33.
  EXPECT_EQ(kept(table, "speedup=33 s1"), (Names{"linear/s1@256"}));
  EXPECT_EQ(kept(table, "speedup=32.9x s1"), (Names{"linear/s1@255"}));
  EXPECT_EQ(kept(table, "speedup=32.875 s1"), (Names{"linear/s1@255"}));
  EXPECT_EQ(kept(table, "speedup!=33 s1"), (Names{"linear/s1@255"}));
  EXPECT_EQ(kept(table, "chosen=yes n=255"), (Names{"linear/s2@255"}));
}

TEST_F(ExplorerModels, SortsByColumnsAndLeavesWhatIsMissingLast) {
  const int n = column_index("n"), speedup = column_index("speedup"), name = column_index("target");
  EXPECT_EQ(kept(*table_, "n=2 linear", {{speedup, true}}),
            (Names{"linear/s3@2", "linear/s2@2", "linear/s1@2", "linear/s4@2", "linear/s5@2"}));
  EXPECT_EQ(kept(*table_, "s1", {{name, false}, {n, true}}),
            (Names{"conv2d/s1@8", "conv2d/s1@2", "linear/s1@8", "linear/s1@2"}));
}

TEST(ExplorerFilter, RefusesInOneLine) {
  const auto said = [](const std::string& text) -> std::string {
    try {
      Filter filter(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(said("spedup>1").find("[filter] column: got spedup, expected one of target, shape"),
            std::string::npos);
  EXPECT_NE(said("spedup>1").find("try speedup>1"), std::string::npos);
  EXPECT_EQ(said("n>many"),
            "[filter] n: got many, expected a number with or without a unit; try n>2");
  EXPECT_EQ(said("target>3"),
            "[filter] target: got >, expected :, = or != as it holds words; try target:3");
  EXPECT_NE(said("speedup>").find("expected a value behind one of"), std::string::npos);
}

TEST_F(ExplorerModels, FilterIsUndone) {
  Jobs jobs;
  TrialsModel model(jobs);
  model.set_table(std::make_shared<const TrialTable>(Store::read(file_.path()).trials(sweep_)));
  for (const char* typed : {"s", "s1", "s1 n"}) model.set_filter(typed, true);
  model.end_typing();
  model.set_filter("linear");
  ASSERT_TRUE(jobs.finish());
  EXPECT_EQ(model.shown().size(), 10u);
  model.undo();
  EXPECT_EQ(model.filter(), "s1 n");
  model.undo();
  EXPECT_EQ(model.filter(), "");
  EXPECT_FALSE(model.can_undo());
  model.redo();
  model.redo();
  ASSERT_TRUE(jobs.finish());
  EXPECT_EQ(model.filter(), "linear");
  EXPECT_EQ(model.shown().size(), 10u);
  model.set_filter("nonsense>1");
  EXPECT_NE(model.error().find("[filter]"), std::string::npos);
  EXPECT_EQ(model.shown().size(), 10u);  // as before
}

TEST_F(ExplorerModels, OverviewFindsTheBestRightTrialAndWhatIsWrong) {
  const std::vector<Group> groups = groups_of(*table_);
  ASSERT_EQ(groups.size(), 2u);
  const Overview overview = overview_of(*table_, axes_of(*table_), {});
  EXPECT_EQ(overview.heads, (Names{"N=2", "N=8"}));
  const OverviewLine& line = overview.lines.at(0);
  EXPECT_EQ(line.name, "linear");
  // At N=8 the third is wrong, so the second is the best; at N=2 the third is.
  EXPECT_DOUBLE_EQ(line.cells.at(0).value, 3.25);
  EXPECT_DOUBLE_EQ(line.cells.at(1).value, 3);
  EXPECT_EQ(line.cells.at(1).incorrect, 1);
  EXPECT_EQ(line.cells.at(1).failed, 1);
  EXPECT_EQ(line.cells.at(1).unsupported, 1);
  EXPECT_EQ(line.fastest, "s2");
  EXPECT_EQ(line.crossover, 2);
  EXPECT_EQ(line.incorrect, 1);
}

TEST_F(ExplorerModels, FigureIsThatOfTheReport) {
  const SweepReport report = Store::read(file_.path()).load(sweep_);
  for (const Measure measure : {Measure::speedup, Measure::time, Measure::throughput,
                                Measure::memory, Measure::roofline, Measure::compile}) {
    FigureOptions options;
    options.measure = measure;
    const Figure expected = figures_of(report.cases, options).front();
    const Figure figure =
        figures_of(cases_of(*table_, groups_of(*table_).front()), options).front();
    ASSERT_EQ(figure.curves.size(), expected.curves.size());
    EXPECT_EQ(figure.notes, expected.notes);
    for (size_t i = 0; i < figure.curves.size(); ++i) {
      EXPECT_EQ(figure.curves[i].name, expected.curves[i].name);
      EXPECT_EQ(figure.curves[i].crossover, expected.curves[i].crossover);
      for (size_t k = 0; k < figure.curves[i].points.size(); ++k) {
        EXPECT_EQ(figure.curves[i].points[k].value, expected.curves[i].points[k].value);
        EXPECT_EQ(figure.curves[i].points[k].error, expected.curves[i].points[k].error);
        EXPECT_EQ(figure.curves[i].points[k].incorrect, expected.curves[i].points[k].incorrect);
      }
    }
  }
}

TEST_F(ExplorerModels, CsvHoldsNumbersInFull) {
  const std::vector<uint32_t> rows = arrange(*table_, Filter("s1 n=2 linear"), {});
  const std::string csv =
      csv_text(*table_, rows, {column_index("strategy"), column_index("n"), column_index("loop")});
  // With what a number means nothing without: what was run, and the interval.
  EXPECT_EQ(csv, fmt::format("n,strategy,loop,mode,dtype,device,phase,machine,loop_low,loop_high\n"
                             "2,s1,2.5,default,f32,cpu,forward,,{},{}\n",
                             1.9 * 1.25, 2.1 * 1.25));
  const std::string units = csv_text(*table_, rows, {column_index("time"), column_index("memory")});
  EXPECT_EQ(units.substr(0, units.find(',')), "time_ns");
  EXPECT_NE(units.find("memory_bytes"), std::string::npos);
}

/// A store that somebody else made may hold any names: they are words, no options and no commands.
TEST_F(ExplorerModels, ACommandOfForeignNamesIsThatOfTheirWords) {
  StoreFile file;
  store_sweep(file.path(), {"a'; touch owned; '", "--json=owned"}, {2});
  Jobs jobs;
  Library library(jobs, file.path());
  library.refresh();
  ASSERT_TRUE(jobs.finish());
  std::vector<std::string> commands;
  for (uint32_t row = 0; row < library.table()->rows.size(); ++row) {
    library.select_row(row);
    ASSERT_TRUE(jobs.finish());
    commands.push_back(library.detail()->command);
  }
  const std::string word = R"('a'\''; touch owned; '\''')";
  const std::string begun = R"('a'\''; touch owned; '\'')";  // of a longer word
  EXPECT_EQ(commands.front(), "./workbench sweep shown --targets " + word + " -n 2 --strategy " +
                                  begun +
                                  "=s1' --dtype f32 --device cpu --mode default --phase forward "
                                  "--budget 1.5");
  EXPECT_NE(commands.back().find(" --targets=--json=owned "), std::string::npos);
}

TEST_F(ExplorerModels, PointKnowsSamplesAndHowToRepeatIt) {
  Jobs jobs;
  Library library(jobs, file_.path());
  library.refresh();
  ASSERT_TRUE(jobs.finish());
  ASSERT_EQ(library.sweep(), sweep_);
  library.select_row(0);
  ASSERT_TRUE(jobs.finish());
  ASSERT_NE(library.detail(), nullptr);
  EXPECT_EQ(library.detail()->timing()->samples_ns.size(), 25u);
  EXPECT_EQ(library.detail()->command,
            "./workbench sweep ci --targets linear -n 2 --axis linear.B=16 --axis linear.D=256 "
            "--strategy linear=s1 --dtype f32 --device cpu --mode default --phase forward --budget "
            "1.5");
  EXPECT_EQ(library.why(), "s1 at N=2 is memory-bound: 25 % of this machine's memory bandwidth");
  // The third at N=8 is wrong, and says so.
  for (uint32_t i = 0; i < library.table()->rows.size(); ++i)
    if (library.table()->word(library.table()->rows[i].strategy) == "s3" &&
        library.table()->rows[i].n == 8) {
      library.select_row(i);
      break;
    }
  ASSERT_TRUE(jobs.finish());
  EXPECT_EQ(library.why(), "s3 at N=8 is incorrect: why it is incorrect");
}

/// The selected trial's facts are of the case as it is now, and of no other trial.
TEST(ExplorerPoint, FollowsTheStoreAndTheSelection) {
  StoreFile file;
  StoredCases plan = stored_plan("shown", {});
  for (const int64_t n : {2, 4})
    plan.cases.push_back({"linear", "B16 D256", "f32", "cpu", "default", "forward", n, {"s1"}});
  Case again = shown_case("linear", 2);
  again.disturbed = true;
  store_cases(file.path(), plan, {again, shown_case("linear", 4)});
  Jobs jobs;
  Library library(jobs, file.path());
  library.refresh();
  ASSERT_TRUE(jobs.finish());
  library.select_row(0);
  ASSERT_TRUE(jobs.finish());
  ASSERT_EQ(library.detail()->trial()->status, Status::ok);
  const PointKey first = *library.point();
  {
    again.trials[0].status = Status::crashed;
    Store store = Store::create(file.path());
    const int64_t sweep = store.resume(plan, /*again_disturbed=*/true);
    store.add_case(sweep, 0, again);
    store.finish(sweep, "complete", {});
  }
  library.open(library.sweep());
  ASSERT_TRUE(jobs.finish());
  EXPECT_EQ(library.point(), first);
  EXPECT_EQ(library.detail()->trial()->status, Status::crashed);

  std::optional<uint32_t> other;
  for (uint32_t i = 0; i < library.table()->rows.size(); ++i)
    if (library.table()->rows[i].n == 4) other = i;
  ASSERT_TRUE(other);
  std::filesystem::remove(file.path());
  library.select_row(*other);
  ASSERT_TRUE(library.detail());
  EXPECT_EQ(library.detail()->key, first) << "until the other one has been read";
  jobs.finish();
  EXPECT_EQ(library.detail(), nullptr) << "it could not be read";
}

TEST(ExplorerLibrary, TheWindowsOwnFusionIsNoNews) {
  const StoreFile file;
  Store store = Store::create(file.path());
  Jobs jobs;
  Library library(jobs, file.path());
  std::vector<std::string> told;
  library.told = [&](const std::string& line) { told.push_back(line); };
  library.refresh();
  jobs.finish();
  library.set_fusing(true);
  store.add_fuse(fuse_document(shown_fusion()));
  library.refresh(true);
  jobs.finish();
  EXPECT_EQ(library.fusions().size(), 1u);
  EXPECT_TRUE(told.empty()) << told.front();
  library.set_fusing(false);
  library.refresh(true);  // of the window's own fusion still
  jobs.finish();
  EXPECT_TRUE(told.empty()) << told.front();
  store.add_fuse(fuse_document(shown_fusion()));
  library.refresh(true);
  jobs.finish();
  EXPECT_EQ(told, (std::vector<std::string>{
                      "another program wrote to the store: the list of fusions changed"}));
}

/// Sweeps older than the list's last one are open until their user closes them.
TEST(ExplorerLibrary, KeepsAnOldSweepOpen) {
  StoreFile file;
  const int64_t oldest = store_sweep(file.path(), {"linear"}, {2});
  {
    Store store = Store::create(file.path());
    for (int i = 0; i < 500; ++i) store.begin(stored_plan("later", {}));
  }
  Jobs jobs;
  Library library(jobs, file.path());
  library.open(oldest);
  library.refresh();
  ASSERT_TRUE(jobs.finish());
  EXPECT_EQ(library.sweep(), oldest);
  EXPECT_FALSE(library.table()->rows.empty());
}

TEST_F(ExplorerModels, NetworksAreMeasuredAgainByTheirPreset) {
  StoreFile file;
  StoredCases plan = stored_plan("nets", {});
  plan.command = "workbench sweep 'my nets.json' --baselines loop,vmap --threads=1 --seed 7 -n 2";
  plan.cases.push_back({"net.pt2", "B=2", "f32", "cpu", "default", "forward", 2, {"wide"}});
  store_cases(file.path(), plan, {shown_case("net.pt2", 2)});
  Jobs jobs;
  Library library(jobs, file.path());
  library.refresh();
  ASSERT_TRUE(jobs.finish());
  library.select_row(0);
  ASSERT_TRUE(jobs.finish());
  EXPECT_EQ(library.detail()->command,
            "./workbench sweep 'my nets.json' --targets net.pt2 -n 2 --strategy net.pt2=s1 --dtype "
            "f32 --device cpu --mode default --phase forward --budget 1.5 --baselines loop,vmap "
            "--threads 1 --seed 7");
}

TEST(ExplorerSamples, HistogramCountsEverySampleOnce) {
  const Histogram h = histogram_of({1, 1, 2, 3, 5}, 4);
  EXPECT_EQ(h.counts, (std::vector<int>{2, 1, 1, 1}));
  EXPECT_EQ(histogram_of({7, 7, 7}, 3).counts, (std::vector<int>{3, 0, 0}));
  EXPECT_TRUE(histogram_of({}, 3).counts.empty());
}

TEST(ExplorerSettings, AreRememberedAndABrokenFileIsTheFirstStart) {
  StoreFile file;
  Settings s;
  s.dark = true;
  s.scale = 1.5;
  s.filter = "n>=8";
  s.tables = "[Table]\n\"quoted\"";
  save_settings(file.path("a/b.json"), s);
  const Settings back = load_settings(file.path("a/b.json"));
  EXPECT_TRUE(back.dark);
  EXPECT_EQ(back.scale, 1.5);
  EXPECT_EQ(back.filter, "n>=8");
  EXPECT_EQ(back.tables, s.tables);
  std::ofstream(file.path("broken.json")) << "{\"dark\": 3";
  EXPECT_FALSE(load_settings(file.path("broken.json")).dark);
}

TEST(ExplorerJobs, OnlyTheNewestResultOfAKeyCounts) {
  Jobs jobs;
  int got = 0;
  std::string failed;
  jobs.failed = [&](const std::string& line) { failed = line; };
  for (int i = 1; i <= 20; ++i)
    jobs.start("key", [&got, i]() -> Jobs::Result { return [&got, i] { got = i; }; });
  jobs.start("bad", []() -> Jobs::Result { throw std::runtime_error("on purpose"); });
  ASSERT_TRUE(jobs.finish());
  EXPECT_EQ(got, 20);
  EXPECT_EQ(failed, "on purpose");
}

/// The result of one job starts another in place of a second, whose result is ready as well.
TEST(ExplorerJobs, AResultThatAnotherReplacesInItsDeliveryIsDropped) {
  std::atomic<int> done = 0;
  Jobs jobs;
  jobs.set_wake([&done] { ++done; });
  std::string got;
  jobs.start("first", [&]() -> Jobs::Result {
    return [&] { jobs.start("second", []() -> Jobs::Result { return {}; }); };
  });
  while (done < 1) std::this_thread::yield();
  jobs.start("second", [&]() -> Jobs::Result { return [&got] { got = "outdated"; }; });
  while (done < 2) std::this_thread::yield();
  ASSERT_TRUE(jobs.finish());
  EXPECT_EQ(got, "");
}

}  // namespace
}  // namespace wide::models_test
