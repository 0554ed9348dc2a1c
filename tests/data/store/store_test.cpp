#include "data/store/store.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "data/reports/sweep/report_json.h"
#include "data/store/tuning.h"
#include "tests/data/python.h"
#include "tests/data/store/stored.h"

namespace wide::store_test {
namespace {

std::string text(const SweepReport& report) {
  return to_json(report).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// What an Error says, and that it has this exit code.
std::string refused(int exit_code, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code(), exit_code) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

class StoreTest : public ::testing::Test {
 protected:
  /// Stores a whole sweep; returns what its report must be.
  SweepReport store_sweep(Store& store, const std::string& name, const std::vector<int64_t>& ns) {
    const StoredCases plan = stored_plan(name, ns);
    SweepReport report;
    const int64_t id = store.begin(plan);
    report.id = std::to_string(id);
    report.name = name;
    report.command = plan.command;
    report.environment = plan.environment;
    for (size_t i = 0; i < ns.size(); ++i) {
      report.cases.push_back(stored_case(ns[i], 100 * static_cast<uint64_t>(id) + i));
      store.begin_case(id, static_cast<int64_t>(i));
      store.add_case(id, static_cast<int64_t>(i), report.cases.back());
    }
    report.changes = {"load: 0.1 now 0.5"};
    store.finish(id, "complete", report.changes);
    return report;
  }

  Scratch folder_;
  std::string path_ = folder_ / "results.db";
};

TEST_F(StoreTest, AReportComesBackAsItWas) {
  Store store = Store::create(path_);
  const SweepReport one = store_sweep(store, "one", {1, 2, 3}),
                    two = store_sweep(store, "two", {5});
  EXPECT_EQ(text(store.load(1)), text(one));
  EXPECT_EQ(text(store.load(2)), text(two));
  EXPECT_EQ(text(Store::read(path_).load(1)), text(one));
}

TEST_F(StoreTest, NumbersThatAreNoneAndTextsThatAreNotUtf8) {
  Store store = Store::create(path_);
  Case c = stored_case(3, 1, 9);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  c.trials[0].correctness->max_rel = nan;
  c.trials[1].correctness->eager_max_rel = inf;
  c.trials[0].speedup->vs_best.low = nan;
  c.trials[0].timing.samples_ns = {0, -0.0, nan, inf, 5e-324, 1.7976931348623157e308, 0.1};
  c.trials[1].timing.samples_ns.clear();
  c.trials[1].reason = std::string("nul \0 and \xff\xfe bytes", 19);
  c.baselines[0].median_ns = nan;
  c.trials[3].correctness->failure = "line\nline";
  c.trials.resize(4);
  const int64_t id = store.begin(stored_plan("odd", {3}));
  store.add_case(id, 0, c);
  const SweepReport got = store.load(id);
  SweepReport expected = got;
  expected.cases = {c};
  EXPECT_EQ(text(got), text(expected));
  const auto& samples = got.cases[0].trials[0].timing.samples_ns;
  ASSERT_EQ(samples.size(), 7u);
  EXPECT_TRUE(std::signbit(samples[1]));
  EXPECT_TRUE(std::isnan(samples[2]));
  EXPECT_EQ(samples[4], 5e-324);
}

TEST_F(StoreTest, WhatAReportLearnsToSayIsStoredWithoutAColumn) {
  // `cold_ns` has no column: it lies in `more`, and older rows without it read as not measured.
  Store store = Store::create(path_);
  store_sweep(store, "s", {2});
  ASSERT_EQ(shell("sqlite3 " + path_ +
                  " \"UPDATE timing SET more = json_remove(more, '$.cold_ns', "
                  "'$.steps')\"")
                .exit_code,
            0);
  const SweepReport report = store.load(1);
  EXPECT_EQ(report.cases[0].trials[0].timing.cold_ns, 0);
  EXPECT_EQ(report.cases[0].trials[0].timing.steps, 0);
  EXPECT_GT(report.cases[0].trials[0].timing.with_packing_ns, 0);
}

TEST_F(StoreTest, WordsForSweeps) {
  Store store = Store::create(path_);
  EXPECT_FALSE(store.find("last"));
  store_sweep(store, "a", {1});
  store_sweep(store, "b", {1});
  store_sweep(store, "a", {1});
  EXPECT_EQ(store.find("last"), 3);
  EXPECT_EQ(store.find("2"), 2);
  EXPECT_EQ(store.find("a"), 3);
  EXPECT_FALSE(store.find("4"));
  EXPECT_FALSE(store.find("c"));
  EXPECT_FALSE(store.find(""));
  store.set_reference("base", 1);
  store.set_reference("base", 2);
  EXPECT_NE(refused(2, [&] { store.set_reference("a", 1); }).find("got the name of sweep 3"),
            std::string::npos);
  EXPECT_NE(refused(2, [&] { store.set_reference("b", 1); }).find("got the name of sweep 2"),
            std::string::npos);
  EXPECT_EQ(store.references().size(), 1u);
  store.set_reference("a", 3);  // what its own name finds
  store_sweep(store, "a", {1});
  store.set_reference("a", 4);  // and its next sweep
  EXPECT_EQ(store.find("a"), 4);
  EXPECT_TRUE(store.remove_reference("a"));
  store.remove(4);
  store.set_reference("d", 1);
  store_sweep(store, "d", {1});
  EXPECT_EQ(store.find("base"), 2);
  EXPECT_EQ(store.find("d"), 1);  // a reference was chosen, a label only happened
  EXPECT_EQ(store.references().size(), 2u);
  store.remove(1);
  EXPECT_EQ(store.references().size(), 1u);
  EXPECT_EQ(store.find("d"), 5);
  store.remove(5);
  EXPECT_EQ(store.find("a"), 3);
  EXPECT_TRUE(store.remove_reference("base"));
  EXPECT_FALSE(store.remove_reference("base"));
  EXPECT_FALSE(store.reference("base"));
  store.remove(3);
  store_sweep(store, "c", {1});
  EXPECT_EQ(store.find("last"), 6);  // a number is never given twice
  for (const char* name :
       {"12", "last", "a/b", "x.json", "run:1", "run:last", "run:x", "run:", ""}) {
    EXPECT_NE(refused(2, [&] { store.begin(stored_plan(name, {1})); }).find("name: got"),
              std::string::npos);
    EXPECT_NE(refused(2, [&] { store.set_reference(name, 6); }).find("name: got"),
              std::string::npos);
  }
}

TEST_F(StoreTest, DeletingLeavesNothing) {
  Store store = Store::create(path_);
  store_sweep(store, "a", {1, 2});
  const SweepReport kept = store_sweep(store, "b", {1, 2});
  store.remove(1);
  EXPECT_EQ(text(store.load(2)), text(kept));
  store.remove(2);
  const auto rows = shell("sqlite3 " + path_ +
                          " \"SELECT count(*) FROM environment UNION ALL SELECT count(*) FROM "
                          "'case' UNION ALL SELECT count(*) FROM trial UNION ALL SELECT count(*) "
                          "FROM timing UNION ALL SELECT count(*) FROM samples UNION ALL SELECT "
                          "count(*) FROM correctness; PRAGMA foreign_key_check\"");
  EXPECT_EQ(rows.out, "0\n0\n0\n0\n0\n0\n");
}

TEST_F(StoreTest, ARunningSweepIsNotDeletedAndADeletedOneSaysSo) {
  Store store = Store::create(path_);
  const int64_t id = store.begin(stored_plan("a", {1, 2}));
  EXPECT_NE(refused(2, [&] { store.remove(id); }).find("delete: got one that another process"),
            std::string::npos);
  store.add_case(id, 0, stored_case(1, 3));
  ASSERT_EQ(shell("sqlite3 " + path_ + " \"DELETE FROM sweep\"").exit_code, 0);
  for (const auto& write : std::vector<std::function<void()>>{
           [&] { store.begin_case(id, 1); }, [&] { store.add_case(id, 1, stored_case(2, 4)); },
           [&] { store.finish(id, "complete", {}); }})
    EXPECT_NE(refused(1, write).find("got a sweep that was deleted meanwhile"), std::string::npos);
}

TEST_F(StoreTest, SweepsOverSeveralMachines) {
  Store store = Store::create(path_);
  const StoredCases plan = stored_plan("a", {1, 2});
  const int64_t id = store.begin(plan);
  Environment other = plan.environment;
  other.host = "other";
  other.governor = "powersave";
  for (int again = 0; again < 2; ++again) {
    store.add_machine(id, other);
    store.add_machine(id, plan.environment);
  }
  Case here = stored_case(1, 3), there = stored_case(2, 4);
  here.machine = machine_name(plan.environment);
  there.machine = machine_name(other);
  store.add_case(id, 0, here);
  store.add_case(id, 1, there);
  store.finish(id, "complete", {});
  const SweepReport report = store.load(id);
  ASSERT_EQ(report.machines.size(), 1u);
  EXPECT_EQ(to_json(report.machines[0]), to_json(other));
  EXPECT_EQ(to_json(report.cases[1]), to_json(there));
  EXPECT_EQ(&environment_of(report, report.cases[0]), &report.environment);
  EXPECT_EQ(&environment_of(report, report.cases[1]), &report.machines[0]);
  const auto rows = shell("sqlite3 " + path_ +
                          " \"SELECT m.name = c.machine, e.host FROM 'case' AS c JOIN machine AS m "
                          "ON m.name = c.machine JOIN environment AS e ON e.id = m.environment\"");
  EXPECT_EQ(rows.out, "1|other\n");
  store.remove(id);
  EXPECT_EQ(shell("sqlite3 " + path_ + " \"SELECT count(*) FROM environment\"").out, "0\n");
}

TEST_F(StoreTest, ListsNewestFirstAndByPages) {
  Store store = Store::create(path_);
  for (int i = 0; i < 5; ++i) store_sweep(store, "s", {1, 2});
  store.begin(stored_plan("running", {1, 2, 3}));
  const auto all = store.sweeps();
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0].state, "running");
  EXPECT_EQ(all[0].done, 0);
  EXPECT_EQ(all[0].cases, 3);
  EXPECT_EQ(all[1].id, 5);
  EXPECT_EQ(all[1].state, "complete");
  EXPECT_EQ(all[1].done, 2);
  EXPECT_EQ(all[1].trials.at("ok"), 2);
  EXPECT_EQ(all[1].trials.at("incorrect"), 2);
  EXPECT_FALSE(all[1].finished.empty());
  const auto page = store.sweeps(2, 3);
  ASSERT_EQ(page.size(), 2u);
  EXPECT_EQ(page[0].id, 3);
}

TEST_F(StoreTest, ResumeTakesWhatIsMissingAndNothingElse) {
  Store store = Store::create(path_);
  const StoredCases plan = stored_plan("r", {1, 2, 3});
  EXPECT_NE(refused(2, [&] { store.resume(plan); }).find("no unfinished sweep"), std::string::npos);
  const int64_t id = store.begin(plan);
  store.add_case(id, 1, stored_case(2, 7));
  EXPECT_NE(refused(2, [&] { store.resume(plan); }).find("still runs"), std::string::npos);
  Case cut = stored_case(1, 8);
  cut.trials[1].status = Status::cancelled;
  store.add_case(id, 0, cut);
  EXPECT_EQ(store.load(id).cases.size(), 2u);
  store.finish(id, "cancelled", {});
  // After its end nobody writes any more, until it is resumed.
  EXPECT_NE(refused(1, [&] { store.add_case(id, 2, stored_case(3, 9)); })
                .find("another process took over"),
            std::string::npos);

  StoredCases other = plan;
  other.settings["--seed"] = "1";
  EXPECT_NE(refused(2, [&] { store.resume(other); }).find("got --seed 1, expected 0"),
            std::string::npos);
  other = plan;
  other.settings["--mode"] = "default";
  EXPECT_NE(refused(2, [&] { store.resume(other); }).find("got --mode default, expected unset"),
            std::string::npos);
  other = stored_plan("r", {1, 2});
  EXPECT_NE(refused(2, [&] { store.resume(other); }).find("got 2 cases, expected 3"),
            std::string::npos);
  other = stored_plan("r", {1, 2, 4});
  EXPECT_NE(refused(2, [&] { store.resume(other); }).find("n=4 as case 3, expected linear"),
            std::string::npos);
  other = plan;
  other.environment.cpu = "another";
  EXPECT_NE(refused(2, [&] { store.resume(other); }).find("model another, expected"),
            std::string::npos);

  StoredCases again = plan;
  again.environment.git = "def";
  EXPECT_EQ(store.resume(again), id);
  EXPECT_EQ(store.missing(id), (std::vector<int64_t>{0, 2}));
  EXPECT_NE(refused(1, [&] { store.add_case(id, 1, stored_case(2, 7)); }).find("case 2 again"),
            std::string::npos);
  store.add_case(id, 0, stored_case(1, 8));
  store.add_case(id, 2, stored_case(3, 9));
  store.finish(id, "complete", {"done"});
  SweepReport report = store.load(id);
  ASSERT_EQ(report.cases.size(), 3u);
  EXPECT_EQ(report.cases[0].trials.size(), 3u);
  EXPECT_EQ(report.state, "complete");
  ASSERT_EQ(report.changes.size(), 2u);
  EXPECT_NE(report.changes[0].find("git abc now def"), std::string::npos);
  EXPECT_NE(refused(2, [&] { store.resume(plan); }).find("no unfinished"), std::string::npos);
}

TEST_F(StoreTest, WhatADeadProcessRanIsInterrupted) {
  const pid_t child = fork();
  if (child == 0) {
    Store store = Store::create(path_);
    const int64_t id = store.begin(stored_plan("dead", {1, 2, 3}));
    store.add_case(id, 0, stored_case(1, 1));
    store.begin_case(id, 1);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Store store = Store::create(path_);
  EXPECT_EQ(store.sweeps()[0].state, "interrupted");
  const SweepReport report = store.load(1);
  EXPECT_EQ(report.state, "interrupted");
  ASSERT_EQ(report.cases.size(), 2u);
  EXPECT_EQ(report.cases[1].n, 2);
  ASSERT_EQ(report.cases[1].trials.size(), 1u);
  EXPECT_EQ(report.cases[1].trials[0].status, Status::interrupted);
  EXPECT_EQ(store.resume(stored_plan("dead", {1, 2, 3})), 1);
  EXPECT_EQ(store.missing(1), (std::vector<int64_t>{1, 2}));
}

TEST_F(StoreTest, ADeletedSweepIsRefusedInALine) {
  Store store = Store::create(path_);
  store_sweep(store, "a", {4});
  store.remove(1);
  const std::string line =
      "[sweep 1] store: got no such number, expected a stored sweep; try workbench list sweeps";
  EXPECT_EQ(refused(2, [&] { store.load(1); }), line);
  EXPECT_EQ(refused(2, [&] { store.load_head(1); }), line);
}

TEST_F(StoreTest, ExportAndImportKeepEverything) {
  const std::string file = folder_ / "one.db", other = folder_ / "other.db";
  Store store = Store::create(path_);
  store_sweep(store, "a", {4});
  SweepReport expected = store_sweep(store, "b", {1, 2, 3});
  const StoredCases plan = stored_plan("cut", {1, 2, 3});
  const int64_t cut = store.begin(plan);
  store.add_case(cut, 1, stored_case(2, 5));
  store.export_sweep(2, file);
  EXPECT_FALSE(std::filesystem::exists(file + "-wal"));
  EXPECT_FALSE(std::filesystem::exists(file + ".part"));
  EXPECT_NE(refused(2, [&] { store.export_sweep(2, file); }).find("exists"), std::string::npos);
  EXPECT_NE(refused(2, [&] { store.export_sweep(9, folder_ / "x.db"); }).find("no such number"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.db.part"));

  Store target = Store::create(other);
  store_sweep(target, "first", {1});
  const std::string before = read_text(file);
  EXPECT_EQ(target.import_sweeps(file), std::vector<int64_t>{2});
  EXPECT_EQ(read_text(file), before);
  EXPECT_TRUE(target.import_sweeps(file).empty());  // known again
  EXPECT_EQ(target.import_sweeps(path_), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(text(target.load(2)), text(expected));
  EXPECT_EQ(target.sweeps()[0].state, "interrupted");
  EXPECT_EQ(target.sweeps()[2].started, store.sweeps()[1].started);
  EXPECT_EQ(target.resume(plan), 4);
  EXPECT_EQ(target.missing(4), (std::vector<int64_t>{0, 2}));
}

TEST_F(StoreTest, TrialFusionsComeBackAsTheyWere) {
  std::mt19937_64 random(3);
  FuseReport report;
  report.model = "mlp";
  report.device = "cpu";
  report.dtype = "f32";
  report.mode = "default";
  report.environment = stored_plan("f", {1}).environment;
  for (const int64_t n : {3, 7}) {
    FuseResult r;
    r.n = n;
    r.coverage = {{Way::strategy, 3}, {Way::vmap, n}};
    if (n == 7) r.coverage_time = {{Way::strategy, 0.75}, {Way::per_model, 0.25}};
    r.fallbacks = {{2, "aten::sort", "no \"batching\" rule"}};
    r.results = {stored_timing("loop", "baseline", random),
                 stored_timing("wide", "candidate", random)};
    if (n == 7) r.chosen = "wide";
    r.correctness = stored_correctness(random);
    if (n == 7) r.speedup = speedup_of({r.results[0]}, r.results[1], 0);
    r.first_call_ns = 12.5;
    r.wide_bytes = 1000 * n;
    r.separate_bytes = 999 * n;
    r.passes = {{"split", 0.5, 10, 8, "2 nodes \"away\"", ""}};
    r.steps = {{"aten::bmm", "fc1", "linear", "einsum", "[3, 4]", 100, 0.5}};
    r.notes = {"a note"};
    r.plan = "2 ranges\n";
    r.items = {{0, 2, "aten::addmm", "linear", "einsum", Way::strategy, "", "fc1"},
               {2, 1, "aten::sort", "", "", Way::per_model, "no rule", ""}};
    report.curve.push_back(r);
  }
  Store store = Store::create(path_);
  const auto same = [&](int64_t id, const FuseReport& expected) {
    const auto difference = nlohmann::json::diff(nlohmann::json(to_json(store.load_fuse(id))),
                                                 nlohmann::json(to_json(expected)));
    EXPECT_TRUE(difference.empty()) << difference;
  };
  EXPECT_EQ(store.add_fuse(fuse_document(report)), 1);
  same(1, report);
  report.curve.pop_back();
  EXPECT_EQ(store.add_fuse(fuse_document(report)), 2);
  same(2, report);
  ASSERT_EQ(store.fusions().size(), 2u);
  EXPECT_EQ(store.fusions()[1].n, (std::vector<int64_t>{3, 7}));
  const auto nodes = shell("sqlite3 " + path_ +
                           " \"SELECT operator, way FROM node WHERE fuse_point = 1 ORDER BY "
                           "position\"");
  EXPECT_EQ(nodes.out, "aten::addmm|strategy\naten::sort|per_model\n");
  EXPECT_NE(refused(2, [&] { store.load_fuse(3); }).find("no such number"), std::string::npos);
}

TEST_F(StoreTest, TuningIsRememberedForEachMachine) {
  const TuningKey key{"network", "linear", "bias", "16,256", "f32", "cpu", 2, 8};
  TuningKey other = key;
  other.n = 9;
  {
    StoredTuning table(path_, "one");
    EXPECT_FALSE(table.lookup(key));
    table.store(key, {"einsum", 12.5});
    table.store(key, {"brgemm", 11.25});
  }
  StoredTuning table(path_, "one");
  ASSERT_TRUE(table.lookup(key));
  EXPECT_EQ(table.lookup(key)->strategy, "brgemm");
  EXPECT_EQ(table.lookup(key)->median_ns, 11.25);
  EXPECT_FALSE(table.lookup(other));
  EXPECT_FALSE(StoredTuning(path_, "two").lookup(key));
  EXPECT_EQ(Store::read(path_).facts().tunings, 1);
}

TEST_F(StoreTest, ThePathIsTheOptionThenTheVariableThenTheDataFolder) {
  setenv("WORKBENCH_DB", "/x/y.db", 1);
  EXPECT_EQ(Store::path("a.db"), "a.db");
  EXPECT_EQ(Store::path(), "/x/y.db");
  unsetenv("WORKBENCH_DB");
  setenv("XDG_DATA_HOME", (folder_ / "data").c_str(), 1);
  EXPECT_EQ(Store::path(), folder_ / "data/workbench/results.db");
  Store::create(Store::path());  // its folder is made
  EXPECT_TRUE(std::filesystem::exists(folder_ / "data/workbench/results.db"));
  unsetenv("XDG_DATA_HOME");
  EXPECT_TRUE(Store::path().ends_with("/.local/share/workbench/results.db"));
}

}  // namespace
}  // namespace wide::store_test
