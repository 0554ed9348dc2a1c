// A case of a sweep, run in this process: what fails after its trials were timed leaves their
// results as they are.
#include "app/cancel.h"
#include "app/sweep/case/run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <new>

#include "app/trial/peer.h"
#include "engine/widen/target.h"

namespace wide::case_test {
namespace {

/// Throws where torch.compile's turn comes, after all trials.
template <class Thrown>
class Fails : public Stages {
 public:
  void begin(const std::string& /*what*/, const std::string& name) override {
    if (name != fmt::format("{}{}", kBaselinePrefix, kPeer)) return;
    ++turns;
    throw Thrown();
  }
  int turns = 0;
};

class SweepCaseRun : public ::testing::Test {
 protected:
  SweepCaseRun() {
    planned_.target = &find_target("linear");
    planned_.shape = planned_.target->sweeps.at("ci").shapes.front();
    planned_.n = 3;
    planned_.strategies = {"vmap"};
    settings_.budget_s = 0.01;
    settings_.threads = 1;
    settings_.min_samples = 2;
    settings_.peer = "python3";
  }
  SweepCase planned_;
  SweepSettings settings_;
};

TEST_F(SweepCaseRun, TrialsStayAsTheyWereMeasuredIfTorchCompileFails) {
  Fails<std::bad_alloc> stages;
  const Case result = run_case(planned_, settings_, stages);
  EXPECT_EQ(stages.turns, 1);
  const Trial& trial = result.trials.at(0);
  EXPECT_EQ(trial.status, Status::ok) << trial.reason;
  EXPECT_EQ(trial.reason, "");
  EXPECT_GT(trial.timing.median_ns, 0);
  EXPECT_TRUE(trial.speedup.has_value());
  EXPECT_TRUE(trial.chosen) << "the engine's choice is asked for after it";
  ASSERT_FALSE(result.notes.empty());
  EXPECT_EQ(result.notes.back().rfind(
                "[torch.compile] memory: got an allocation refused, expected enough (", 0),
            0u)
      << result.notes.back();
}

TEST_F(SweepCaseRun, CancellingThereEndsTheCase) {
  Fails<Cancelled> stages;
  EXPECT_THROW(run_case(planned_, settings_, stages), Cancelled);
}

TEST_F(SweepCaseRun, TorchCompileIsLeftOutWhereItEndedAWorker) {
  Fails<std::bad_alloc> stages;
  settings_.baselines_off = {kPeer};
  EXPECT_EQ(run_case(planned_, settings_, stages).trials.at(0).status, Status::ok);
  EXPECT_EQ(stages.turns, 0);
}

}  // namespace
}  // namespace wide::case_test
