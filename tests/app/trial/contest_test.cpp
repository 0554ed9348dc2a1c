// One contest: what a candidate's failure does to it and to the others.
#include "app/trial/contest.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "app/cancel.h"
#include "engine/error.h"
#include "tests/app/planted_target.h"

namespace wide::contest_test {
namespace {

struct Three {
  Network network = [] {
    Network net = planted_linear();
    net.instantiate = [net](const Tensors& weights) { return bind(net, weights); };
    return net;
  }();
  Ensemble ensemble = generate(network, 3, at::kFloat, c10::kCPU, 5);
  Program single = record_single(network, ensemble);

  Contest contest() const {
    Contest c{network, single, ensemble};
    c.tolerance = 1e-5;
    c.budget_s = 0.001;
    c.threads = 1;
    return c;
  }
  Candidate good(const std::string& name = "good") const {
    return {name, [this](double) { return compile(network, ensemble); }};
  }
};

TEST(Contest, WhoFailsLeavesTheOthersAlone) {
  const Three three;
  Contest contest = three.contest();
  contest.candidates = {
      {"refuses", [](double) -> std::unique_ptr<CompiledModel> { fail("[x] y: got 1"); }},
      three.good(),
      {"large",
       [](double) -> std::unique_ptr<CompiledModel> { throw Error("[x] memory: got 1", 5); }},
      {"throws", [](double) -> std::unique_ptr<CompiledModel> { throw std::runtime_error("z"); }}};
  Stages silent;
  const ContestResult held = run_contest(contest, silent);
  const auto status = [&](size_t i) { return held.trials.at(i).trial.status; };
  EXPECT_EQ(status(0), Status::unsupported);
  EXPECT_EQ(status(1), Status::ok) << held.trials[1].trial.reason;
  EXPECT_EQ(status(2), Status::oom);
  EXPECT_EQ(status(3), Status::crashed);
  EXPECT_EQ(held.trials[0].trial.reason, "[x] y: got 1");
  EXPECT_THROW(std::rethrow_exception(held.trials[2].thrown), Error);
  EXPECT_TRUE(held.trials[1].model);
  EXPECT_FALSE(held.trials[1].thrown);
  EXPECT_TRUE(held.trials[1].trial.speedup->vs_loop);
  EXPECT_EQ(held.baselines.at(0).name, "loop");
  EXPECT_EQ(held.notes, std::vector<std::string>{"baseline threads is not available: one thread "
                                                 "only"});
}

TEST(Contest, BaselinesAreThoseThatAreWanted) {
  const Three three;
  Contest contest = three.contest();
  contest.candidates = {three.good()};
  contest.baselines = {"loop", "vmap"};
  contest.baselines_off = {"loop"};
  Stages silent;
  const ContestResult held = run_contest(contest, silent);
  ASSERT_EQ(held.baselines.size(), 1u);
  EXPECT_EQ(held.baselines[0].name, "vmap");
  EXPECT_FALSE(held.trials[0].trial.speedup->vs_loop);
  EXPECT_TRUE(held.notes.empty());
}

TEST(Contest, ResultsOfTheLastCheckAreKeptRightOrWrong) {
  const Three three;
  Contest contest = three.contest();
  contest.candidates = {three.good()};
  Stages silent;
  EXPECT_TRUE(run_contest(contest, silent).trials[0].results.empty()) << "nobody asked for them";
  contest.keep_results = true;
  const ContestResult held = run_contest(contest, silent);
  EXPECT_LT(max_relative_error(held.trials[0].results, in_double(three.single, three.ensemble)),
            1e-5);

  contest.expected = [&] {
    Expected others = expect(three.network, three.single, three.ensemble);
    others.exact[0] = others.exact[0] + 1;
    return others;
  };
  const ContestResult wrong = run_contest(contest, silent);
  EXPECT_EQ(wrong.trials[0].trial.status, Status::incorrect);
  EXPECT_LT(max_relative_error(wrong.trials[0].results, in_double(three.single, three.ensemble)),
            1e-5);
}

TEST(Contest, StagesMayEndIt) {
  struct Impatient : Stages {
    std::string at;
    explicit Impatient(std::string when) : at(std::move(when)) {}
    void begin(const std::string& what, const std::string&) override {
      if (what == at) throw Cancelled();
    }
    void call(size_t) override {
      if (at == "call") throw Cancelled();
    }
  };
  const Three three;
  Contest contest = three.contest();
  contest.candidates = {three.good()};
  for (const char* when : {"prepare", "baseline", "call", "check"}) {
    Impatient stages(when);
    EXPECT_THROW(run_contest(contest, stages), Cancelled) << when;
  }
}

}  // namespace
}  // namespace wide::contest_test
