// Curves of training runs, read at once and piece by piece.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "data/store/runs/run_reader.h"
#include "tests/data/store/stored_run.h"
#include "tests/scratch.h"

namespace wide::run_reader_test {
namespace {

void expect_same(const RunHistory& a, const RunHistory& b) {
  ASSERT_EQ(a.models.size(), b.models.size());
  ASSERT_EQ(a.metrics.size(), b.metrics.size());
  for (const auto& [metric, curves] : a.metrics)
    for (size_t m = 0; m < curves.size(); ++m) {
      EXPECT_EQ(curves[m].steps, b.metrics.at(metric)[m].steps) << metric << m;
      EXPECT_EQ(curves[m].values, b.metrics.at(metric)[m].values) << metric << m;
    }
}

TEST(RunReader, ReadsWhatIsNewAndNothingTwice) {
  const Scratch folder;
  const std::string path = folder / "results.db";
  Store store = Store::create(path);
  const std::string run = store.begin_run(stored_run(7, 130), "", 0);
  store.add_run_rows(stored_rows(run, 7, 0, 3));
  RunReader reader(path);
  const auto first = reader.read(std::stoll(run), nullptr);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->state, "running");
  EXPECT_EQ(first->metric("loss")->at(6).steps, (std::vector<int64_t>{10, 20, 30}));
  EXPECT_EQ(first->metric("loss")->at(6).values[2], stored_loss(6, 2));
  EXPECT_EQ(reader.read(std::stoll(run), first), first) << "nothing is new";

  store.add_run_rows(stored_rows(run, 7, 3, 5));
  const auto second = reader.read(std::stoll(run), first);
  ASSERT_NE(second, first);
  expect_same(*second, *RunReader(path).read(std::stoll(run), nullptr));
  EXPECT_EQ(second->last_step(), 50);
  EXPECT_EQ(first->last_step(), 30) << "what was given before stays as it was";

  // A model that ends in a run that goes on is known by its event.
  store.add_run_rows({{"run", run},
                      {"rows", nlohmann::ordered_json::array()},
                      {"events", {{50, 4, "model 4 diverged at step 50"}}}});
  const auto third = reader.read(std::stoll(run), second);
  EXPECT_EQ(third->models[4].status, "diverged");
  EXPECT_EQ(third->models[3].status, "running");
}

TEST(RunReader, AResumedRunIsReadFromItsBeginning) {
  const Scratch folder;
  const std::string path = folder / "results.db";
  Store store = Store::create(path);
  const std::string run = store.begin_run(stored_run(3, 130), "", 0);
  store.add_run_rows(stored_rows(run, 3, 0, 5));
  RunReader reader(path);
  const auto before = reader.read(std::stoll(run), nullptr);
  store.begin_run(stored_run(3, 130), run, 20);  // goes on from step 20
  const auto after = reader.read(std::stoll(run), before);
  EXPECT_EQ(after->last_step(), 20);
  expect_same(*after, *RunReader(path).read(std::stoll(run), nullptr));
  EXPECT_EQ(reader.read(99, after), nullptr);
}

TEST(RunReader, InterruptedModelsOfAResumedRunAreRunningAgain) {
  const Scratch folder;
  const std::string path = folder / "results.db";
  Store store = Store::create(path);
  const std::string run = store.begin_run(stored_run(5, 130), "", 0);
  RunReport ended = stored_report(5, 130, "digits", "interrupted");
  const std::vector<std::string> statuses = {"interrupted", "stopped", "pruned", "diverged",
                                             "interrupted"};
  for (size_t m = 0; m < 5; ++m) {
    ended.models[m].status = statuses[m];
    ended.models[m].at_step = 50;
  }
  store.end_run(run, to_json(ended));
  RunReader reader(path);
  const auto before = reader.read(std::stoll(run), nullptr);
  store.begin_run(stored_run(5, 130), run, 50);
  const auto after = reader.read(std::stoll(run), before);
  for (size_t m = 0; m < 5; ++m) {
    const bool on = statuses[m] == "interrupted";
    EXPECT_EQ(before->models[m].status, statuses[m]) << m;
    EXPECT_EQ(after->models[m].status, on ? "running" : statuses[m]) << m;
    EXPECT_EQ(after->models[m].at_step, on ? 0 : 50) << m;
    EXPECT_EQ(after->models[m].hyperparameters, before->models[m].hyperparameters) << m;
  }
  EXPECT_EQ(reader.runs(1).front().statuses,
            (std::map<std::string, int64_t>{
                {"diverged", 1}, {"pruned", 1}, {"running", 2}, {"stopped", 1}}));
}

TEST(RunReader, KnowsWhenEachEvaluationWas) {
  const Scratch folder;
  const std::string path = folder / "results.db";
  Store store = Store::create(path);
  const std::string run = store.begin_run(stored_run(3, 130), "", 0);
  nlohmann::ordered_json rows = stored_rows(run, 3, 0, 3);
  rows["times"] = {{10, 0.5}, {20, 1.25}, {30, 2.125}};
  store.add_run_rows(rows);
  const auto read = RunReader(path).read(std::stoll(run), nullptr);
  EXPECT_EQ(read->seconds, (std::map<int64_t, double>{{10, 0.5}, {20, 1.25}, {30, 2.125}}));
}

TEST(RunRequests, AreTakenOnceAndNotByARunThatGoesOnLater) {
  const Scratch folder;
  Store store = Store::create(folder / "results.db");
  const std::string run = store.begin_run(stored_run(5, 130), "", 0);
  const std::string other = store.begin_run(stored_run(5, 130), "", 0);
  const auto models = [&](const std::string& of) {
    std::vector<int64_t> all;
    for (const RunRequest& r : store.take_requests(of, 20)) all.push_back(r.model);
    return all;
  };
  EXPECT_TRUE(models(run).empty());
  for (const int64_t model : {3, 1, 3, -1}) store.ask_to_stop(std::stoll(run), model);
  EXPECT_TRUE(models(other).empty());
  EXPECT_EQ(models(run), (std::vector<int64_t>{3, 1, -1}));
  EXPECT_TRUE(models(run).empty());
  store.ask_to_stop(std::stoll(run), 2);
  store.begin_run(stored_run(5, 130), run, 20);  // resumed: what was asked before is past
  EXPECT_TRUE(models(run).empty());
}

TEST(RunRequests, SayWhatIsToBeChangedAndWhatBecameOfIt) {
  const Scratch folder;
  const std::string path = folder / "results.db";
  Store store = Store::create(path);
  const std::string run = store.begin_run(stored_run(5, 130), "", 0);
  SQLite::Database sql(path, SQLite::OPEN_READWRITE);
  sql.exec(
      "INSERT INTO run_request(run, model, what, key, value, source, asked) VALUES"
      "(1, 3, 'set', 'lr', 0.125, NULL, ''), (1, 2, 'copy', NULL, NULL, 4, ''),"
      "(1, NULL, 'go', NULL, NULL, NULL, '')");
  const std::vector<RunRequest> all = store.take_requests(run, 20);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(std::tie(all[0].what, all[0].model, all[0].key, all[0].value),
            std::make_tuple("set", 3, "lr", 0.125));
  EXPECT_EQ(std::tie(all[1].what, all[1].model, all[1].source), std::make_tuple("copy", 2, 4));
  EXPECT_EQ(std::tie(all[2].what, all[2].model), std::make_tuple("go", -1));
  store.add_run_rows({{"run", run},
                      {"rows", nlohmann::ordered_json::array()},
                      {"events", nlohmann::ordered_json::array()},
                      {"refused", {{all[1].id, "because"}}}});
  EXPECT_EQ(sql.execAndGet("SELECT group_concat(what || step || ifnull(refused, '')) FROM "
                           "run_request ORDER BY id")
                .getString(),
            "set20,copy20because");              // an answer to go on leaves nothing behind
  store.begin_run(stored_run(5, 130), run, 10);  // what was done after the step it goes on from
  EXPECT_EQ(sql.execAndGet("SELECT count(*) FROM run_request").getInt(), 0);
}

}  // namespace
}  // namespace wide::run_reader_test
