// A sweep as the command line and the explorer run it: what is kept of it beside its cases.
#include "app/sweep/session.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "app/explorer/models/trials/run.h"
#include "engine/error.h"
#include "tests/app/explorer/stored.h"

namespace wide::session_test {
namespace {

/// Other programs that take all cores while this lives.
class OtherPrograms {
 public:
  OtherPrograms() {
    for (int i = 0; i < usable_cores(); ++i) {
      const pid_t child = fork();
      if (child == 0)
        for (std::atomic<unsigned> spin = 0;; ++spin) {
        }
      children_.push_back(child);
    }
  }
  ~OtherPrograms() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  OtherPrograms(const OtherPrograms&) = delete;
  OtherPrograms& operator=(const OtherPrograms&) = delete;

 private:
  std::vector<pid_t> children_;
};

SweepRequest request(const std::string& db, Resume resume = Resume::no) {
  Preset preset;
  preset.name = "test";
  preset.targets = {"layernorm"};
  preset.sweep = "ci";
  preset.n = {2, 3};
  preset.axes = {{"layernorm", {{"D", {8}}, {"T", {4}}}}};
  SweepSettings settings;
  settings.budget_s = 0.05;
  settings.threads = 1;
  return {"test", "workbench sweep test", sweep_cases(preset, {}), settings, db, resume};
}

TEST(SweepSession, ABusyMachineIsSaidAndItsVerdictsAreUnclear) {
  StoreFile file;
  const OtherPrograms others;
  SweepSession session(request(file.path()));
  EXPECT_NE(session.busy().find("% of the cores as it began"), std::string::npos);
  EXPECT_GT(session.left_s(), 0);
  EXPECT_EQ(session.run(), "complete");
  EXPECT_NEAR(session.left_s(), 0, 1e-6);
  for (const Case& c : session.report().cases) {
    EXPECT_TRUE(c.disturbed) << c.other_load;
    for (const Trial& t : c.trials) EXPECT_EQ(t.verdict, "UNCLEAR") << t.strategy;
  }
  Store store = Store::read(file.path());
  const SweepReport stored = store.load(session.stored_as());
  EXPECT_EQ(stored.changes, session.report().changes);
  ASSERT_FALSE(stored.changes.empty());
  EXPECT_EQ(stored.changes.back(), session.busy());
  EXPECT_TRUE(stored.cases.at(1).disturbed);
}

TEST(SweepSession, ResumedElsewhereItStillKnowsWhoBeganIt) {
  StoreFile file;
  std::string host;
  {
    SweepSession begun(request(file.path()));
    host = begun.report().environment.host;
    begun.runner().stop();
    EXPECT_EQ(begun.run(), "cancelled");
  }
  SweepRequest again = request(file.path(), Resume::missing);
  Environment other;
  other.host = "other-machine";
  other.cpu = "another processor";
  other.cores = 3;
  again.machines = {other};
  const SweepSession resumed(again);
  EXPECT_EQ(resumed.report().environment.host, host);
  ASSERT_EQ(resumed.report().machines.size(), 1u);
  EXPECT_EQ(resumed.report().machines[0].host, "other-machine");
}

TEST(SweepSession, NothingIsKeptWithoutAStore) {
  SweepSession session(request(""));
  EXPECT_EQ(session.stored_as(), 0);
  EXPECT_EQ(session.runner().settings().tuning_db, "");
}

TEST(SweepSession, OnlyWhatWasDisturbedIsMeasuredAgain) {
  StoreFile file;
  SweepRequest asked = request(file.path());
  const Environment environment = capture_environment("", "", "");
  StoredCases plan = cases_to_store("test", asked.cases, asked.settings, environment);
  std::vector<Case> before;
  {
    Store store = Store::create(file.path());
    const int64_t id = store.begin(plan);
    for (int64_t i = 0; i < 2; ++i) {
      Case& c = before.emplace_back(stored_case(asked.cases[static_cast<size_t>(i)].n, 7));
      c.target = "layernorm";
      c.disturbed = i == 1;
      store.add_case(id, i, c);
    }
    store.finish(id, "complete", {});
    EXPECT_THROW(store.resume(plan), Error);  // it is complete
  }
  SweepSession session(request(file.path(), Resume::disturbed));
  EXPECT_EQ(session.stored_as(), 1);
  EXPECT_EQ(session.done_before(), 1u);
  Store store = Store::read(file.path());
  EXPECT_EQ(store.load(1).cases.size(), 2u);  // the old result is there until there is another
  EXPECT_EQ(store.missing(1), std::vector<int64_t>{1});
  EXPECT_EQ(session.run(), "complete");
  ASSERT_FALSE(session.report().changes.empty());
  EXPECT_TRUE(session.report().changes[0].starts_with("resumed ")) << session.report().changes[0];
  EXPECT_EQ(session.report().changes, store.load(1).changes);
  const std::vector<Case> after = store.load(1).cases;
  EXPECT_EQ(after.at(0).trials.size(), before[0].trials.size());
  EXPECT_EQ(after.at(0).trials[0].timing.samples_ns, before[0].trials[0].timing.samples_ns);
  EXPECT_EQ(after.at(1).trials.at(0).strategy, "one_pass");
  EXPECT_EQ(store.sweeps().at(0).state, "complete");
}

/// A sweep of the explorer's; alone, as nothing is learnt while other programs take the cores.
TEST(SweepTuningSerial, TheExplorerUsesTheTuningTablesStore) {
  StoreFile file;
  Jobs jobs;
  RunModel model(jobs, file.path());
  RunChoices choices;
  choices.preset = "ci";
  choices.targets = {"linear"};
  choices.n = "2";
  choices.axes = {"linear.B=3", "linear.D=8"};
  choices.baselines = {"loop"};
  choices.budget_s = 0.02;
  model.set_choices(choices);
  ASSERT_TRUE(jobs.finish());
  model.start();
  ASSERT_TRUE(jobs.finish());
  while (model.active()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(model.progress().error, "");
  EXPECT_EQ(model.progress().ended, "complete");
  Store store = Store::read(file.path());
  EXPECT_GT(store.facts().tunings, 0);
  EXPECT_EQ(store.load(1).environment.peak_flops_per_s.empty(), false);
}

/// Ends the sweep at its second case, as a disk that is full would.
struct Throwing : SweepObserver {
  int cases = 0;
  void on_begin(const SweepCase&) override {
    if (++cases == 2) throw Error("[planted] error", 1);
  }
};

TEST(SweepSession, OneThatThrowsIsInterruptedWhileItsProcessLives) {
  StoreFile file;
  {
    SweepSession session(request(file.path()));
    Throwing throwing;
    session.runner().add(throwing);
    EXPECT_THROW(session.run(), Error);
  }
  Store store = Store::read(file.path());
  const std::vector<SweepRow> sweeps = store.sweeps();
  ASSERT_EQ(sweeps.size(), 1u);
  EXPECT_EQ(sweeps[0].state, "interrupted");
  EXPECT_EQ(sweeps[0].done, 1);
  SweepSession again(request(file.path(), Resume::missing));
  EXPECT_EQ(again.run(), "complete");
}

}  // namespace
}  // namespace wide::session_test
