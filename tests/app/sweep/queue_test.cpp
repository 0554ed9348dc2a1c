// The sweep's loop hands cases to workers of which it knows nothing: here they are objects of this
// process that run nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>

#include "app/sweep/record.h"
#include "engine/error.h"
#include "tests/app/explorer/stored.h"

namespace wide::queue_test {
namespace {

using Milliseconds = std::chrono::milliseconds;

/// Cases of which those with more models are the longer ones by estimate.
std::vector<SweepCase> many_cases(int64_t count) {
  Preset preset;
  preset.name = "test";
  preset.targets = {"layernorm"};
  preset.sweep = "ci";
  for (int64_t n = 1; n <= count; ++n) preset.n.push_back(n);
  preset.axes = {{"layernorm", {{"D", {8}}, {"T", {4}}}}};
  return sweep_cases(preset, {});
}

struct Stub : Worker {
  std::function<bool(const SweepCase&)> dies = [](const SweepCase&) { return false; };
  std::vector<int64_t>* order = nullptr;
  std::optional<SweepCase> given;
  bool lives = true, was_stopped = false;
  std::string on;

  void send(const SweepCase& planned) override {
    ASSERT_TRUE(lives && !given);
    given = planned;
    if (order) order->push_back(planned.n);
    if (dies(planned)) lives = false;
  }
  std::optional<WorkerNews> receive(Milliseconds) override {
    if (!lives || !given) return std::nullopt;
    WorkerNews news;
    news.result = empty_case(*given);
    given.reset();
    return news;
  }
  bool alive() override { return lives; }
  std::string machine() const override { return on; }
  void stop() override { was_stopped = true; }
};

struct Counts : SweepObserver {
  std::map<int64_t, int> begun, ended;
  std::vector<Case> crashed;
  std::vector<std::string> lost;
  std::string state;
  void on_begin(const SweepCase& planned) override { ++begun[planned.n]; }
  void on_case(const SweepCase& planned, const Case& result) override {
    EXPECT_EQ(planned.n, result.n);
    ++ended[planned.n];
    if (result.trials.front().status == Status::crashed) crashed.push_back(result);
  }
  void on_lost(const std::string& what) override { lost.push_back(what); }
  void on_end(const std::string& how) override { state = how; }
};

std::vector<std::unique_ptr<Worker>> stubs(size_t count, const std::function<void(Stub&)>& set) {
  std::vector<std::unique_ptr<Worker>> all;
  for (size_t i = 0; i < count; ++i) {
    auto stub = std::make_unique<Stub>();
    set(*stub);
    all.push_back(std::move(stub));
  }
  return all;
}

TEST(SweepQueue, AThousandWorkersAndAStore) {
  constexpr int64_t kCases = 2000;
  StoreFile file;
  SweepRunner runner(many_cases(kCases), {});
  SweepRecorder recorder(Store::create(file.path()),
                         cases_to_store("test", runner.cases(), runner.settings(), {}), Resume::no);
  Counts counts;
  recorder.attach(runner);
  runner.add(counts);
  int made = 0;
  runner.use_workers(stubs(1000, [&](Stub& stub) {
    if (++made % 10 == 0)  // each tenth is lost at its second case
      stub.dies = [cases = 0](const SweepCase&) mutable { return ++cases == 2; };
  }));
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(runner.run(), "complete");
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  fmt::print("{:.0f} cases/s through 1000 workers into the store\n", kCases / seconds);
  EXPECT_EQ(counts.ended.size(), static_cast<size_t>(kCases));
  int again = 0;
  for (const auto& [n, times] : counts.ended) {
    EXPECT_EQ(times, 1) << n;
    again += counts.begun[n] - 1;
  }
  EXPECT_GT(again, 0);
  EXPECT_TRUE(counts.crashed.empty());
  ASSERT_EQ(counts.lost.size(), static_cast<size_t>(again));
  EXPECT_EQ(counts.lost[0], "a worker is lost: no heartbeat; another worker takes its case");
  Store store = Store::read(file.path());
  EXPECT_EQ(store.sweeps()[0].state, "complete");
  EXPECT_EQ(store.sweeps()[0].done, kCases);
  const SweepReport report = store.load(1);
  for (size_t i = 0; i < report.cases.size(); ++i)
    EXPECT_EQ(report.cases[i].n, static_cast<int64_t>(i) + 1);
}

TEST(SweepQueue, SeveralWorkersTakeTheLongestFirst) {
  std::vector<int64_t> one, two;
  for (const size_t workers : {1, 2}) {
    SweepRunner runner(many_cases(5), {});
    runner.use_workers(
        stubs(workers, [&](Stub& stub) { stub.order = workers == 1 ? &one : &two; }));
    runner.run();
  }
  EXPECT_EQ(one, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(two, (std::vector<int64_t>{5, 4, 3, 2, 1}));
}

TEST(SweepQueue, ACaseThatTakesWorkersWithItIsGivenUp) {
  SweepRunner runner(many_cases(6), {});
  Counts counts;
  runner.add(counts);
  runner.use_workers(stubs(
      5, [](Stub& stub) { stub.dies = [](const SweepCase& planned) { return planned.n == 4; }; }));
  EXPECT_EQ(runner.run(), "complete");
  EXPECT_EQ(counts.ended.size(), 6u);
  ASSERT_EQ(counts.crashed.size(), 1u);
  EXPECT_EQ(counts.crashed[0].n, 4);
  EXPECT_EQ(counts.begun[4], 3);
  EXPECT_NE(counts.crashed[0].trials[0].reason.find("3 workers lost"), std::string::npos);
}

/// Answers nothing, and counts as lost from the `left`-th question on.
struct FallsSilent : Stub {
  int left = 0;
  std::optional<WorkerNews> receive(Milliseconds) override { return std::nullopt; }
  bool alive() override { return left-- > 0; }
};

/// A heartbeat that grows too old between two questions takes no case with it.
TEST(SweepQueue, WorkersMayFallSilentAtAnyMoment) {
  for (int questions = 1; questions < 40; ++questions) {
    SweepRunner runner(many_cases(4), {});
    Counts counts;
    runner.add(counts);
    std::vector<std::unique_ptr<Worker>> workers = stubs(1, [](Stub&) {});
    auto silent = std::make_unique<FallsSilent>();
    silent->left = questions;
    workers.insert(workers.begin(), std::move(silent));
    runner.use_workers(std::move(workers));
    EXPECT_EQ(runner.run(), "complete");
    EXPECT_EQ(counts.ended.size(), 4u) << questions;
    EXPECT_EQ(counts.lost.size(), 1u) << questions;
  }
}

/// The error, of exit code 1, that a sweep ends with.
std::string error_of(SweepRunner& runner) {
  try {
    runner.run();
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code(), 1);
    return e.what();
  }
  return "none";
}

TEST(SweepQueue, WithoutAnyWorkerLeftItIsAnError) {
  SweepRunner runner(many_cases(4), {});
  Counts counts;
  runner.add(counts);
  runner.use_workers(
      stubs(2, [](Stub& stub) { stub.dies = [](const SweepCase&) { return true; }; }));
  EXPECT_EQ(error_of(runner), "[sweep] workers: got none left of 2, expected one; try --resume");
  EXPECT_TRUE(counts.ended.empty());
}

/// Two machines of which each measures all, and a third whose only worker is lost.
TEST(SweepQueue, EachMachineMeasuresAllByItself) {
  const std::vector<SweepCase> cases = many_cases(7);
  for (const bool lost : {false, true}) {
    SweepRunner runner(on_each_machine(cases, {"b", "a", "b"}), {});
    ASSERT_EQ(runner.cases().size(), 14u);
    EXPECT_EQ(runner.cases()[6].machine, "a");
    EXPECT_EQ(runner.cases()[7].machine, "b");
    struct By : Counts {
      std::multiset<std::pair<std::string, int64_t>> measured;
      void on_case(const SweepCase& planned, const Case& result) override {
        EXPECT_EQ(planned.machine, result.machine);
        measured.emplace(result.machine, result.n);
      }
    } by;
    runner.add(by);
    int made = 0;
    runner.use_workers(stubs(3, [&](Stub& stub) {
      stub.on = made++ == 0 ? "a" : "b";
      stub.dies = [&stub, lost](const SweepCase& planned) {
        EXPECT_EQ(planned.machine, stub.on);
        return lost && stub.on == "a" && planned.n == 3;
      };
    }));
    if (lost)
      EXPECT_EQ(error_of(runner),
                "[sweep] workers: got none left on a, expected one; try --resume");
    else
      EXPECT_EQ(runner.run(), "complete");
    for (int64_t n = 1; n <= 7; ++n) {
      EXPECT_EQ(by.measured.count({"a", n}), !lost || n > 3 ? 1u : 0u) << n;
      EXPECT_EQ(by.measured.count({"b", n}), 1u) << n;
    }
  }
}

TEST(SweepQueue, StoppedItStopsAllWorkersAndTellsOfTheirCases) {
  SweepRunner runner(many_cases(9), {});
  struct StopAtThird : Counts {
    SweepRunner* runner = nullptr;
    void on_begin(const SweepCase& planned) override {
      Counts::on_begin(planned);
      if (begun.size() == 3) runner->stop();
    }
  } counts;
  counts.runner = &runner;
  runner.add(counts);
  runner.use_workers(stubs(3, [](Stub&) {}));
  EXPECT_EQ(runner.run(), "cancelled");
  EXPECT_EQ(counts.state, "cancelled");
  EXPECT_EQ(counts.ended.size(), counts.begun.size());
}

}  // namespace
}  // namespace wide::queue_test
