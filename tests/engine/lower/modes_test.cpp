// What the execution modes promise: eager is ATen alone and right for every target, max-autotune
// finds what default was misled about and remembers it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/lower/tune/tuning.h"
#include "engine/machine/clock.h"
#include "engine/widen/derivative.h"
#include "engine/widen/target.h"

namespace wide::modes_test {
namespace {

CompileOptions in(Mode mode) {
  CompileOptions options;
  options.mode = mode;
  options.threads = 2;
  options.tune = mode == Mode::max_autotune;
  return options;
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Target* target : targets()) names.push_back(target->name);
  return names;
}

class ModeEager : public ::testing::TestWithParam<std::string> {};

/// Against float64, N separate models at a time: mode default's own check, so that both agree.
TEST_P(ModeEager, IsAtenAloneAndRight) {
  const at::NoGradGuard no_grad;
  const Target& target = find_target(GetParam());
  if (target.may_not_fit) GTEST_SKIP() << "its networks are for machines with more memory";
  for (const std::string phase : {"forward", "step"}) {
    SCOPED_TRACE(phase);
    Network network = target.network(target.sweeps.at("ci").shapes.front());
    Program single =
        record_single(network, generate(network, 1, at::kFloat, c10::kCPU, 3), phase == "step");
    if (phase == "step") {
      try {
        network = phase_network(network, single, phase, "adamw");
        single = record_single(network, generate(network, 1, at::kFloat, c10::kCPU, 3));
      } catch (const Unsupported&) {
        continue;  // nothing to train
      }
    }
    const Ensemble ensemble = generate(network, 3, at::kFloat, c10::kCPU, 5);
    std::unique_ptr<CompiledModel> model;
    try {
      model = compile(network, ensemble, in(Mode::eager), single);
    } catch (const Unsupported& e) {
      ADD_FAILURE() << e.what();
      continue;
    }
    EXPECT_EQ(model->ranges(), 1);
    for (const Node& node : model->program().nodes) {
      const std::string name = node.name();
      EXPECT_TRUE(name.rfind("aten::", 0) == 0 || name.rfind("wide::optimizer_step", 0) == 0)
          << name;
      EXPECT_EQ(node.phase, Phase::main) << "work ahead of calls: " << name;
    }
    EXPECT_EQ(model->plan_text().find("packed"), std::string::npos);
    if (network.random || phase == "step") continue;  // own draws; a sign near 0 moves a step
    const Correctness c = check(network, single, ensemble, as_function(*model, network),
                                target.tolerance_for(at::kFloat));
    EXPECT_TRUE(c.pass) << c.failure;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModeEager, ::testing::ValuesIn(names()),
                         [](const auto& named) { return named.param; });

TEST(Modes, EagerTakesNoKernelOfThisProject) {
  const Target& conv = find_target("conv2d");
  const Network network = conv.network(conv.sweeps.at("ci").shapes.front());
  const Ensemble ensemble = generate(network, 4, at::kFloat, c10::kCPU, 3);
  size_t refused = 0, taken = 0;
  for (const Strategy& s : conv.strategies) {
    CompileOptions options = in(Mode::eager);
    options.widen.force["conv2d"] = s.name;
    options.widen.strict = true;
    CompileOptions planned = in(Mode::default_);
    planned.widen = options.widen;
    bool own = false;
    try {
      const auto model = compile(network, ensemble, planned);
      for (const Node& node : model->program().nodes)
        own |= node.name().rfind("wide::", 0) == 0 && node.origin.strategy == s.name;
    } catch (const Unsupported&) {
      continue;  // in no mode
    }
    try {
      compile(network, ensemble, options);
      ++taken;
    } catch (const Unsupported& e) {
      ++refused;
      EXPECT_TRUE(own) << s.name << ": " << e.what();
      EXPECT_NE(std::string(e.what()).find("expected ATen operators alone"), std::string::npos)
          << e.what();
    }
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(taken, 0u);
}

TEST(Modes, ReduceOverheadIsForCudaGraphs) {
  EXPECT_TRUE(unsupported(Mode::reduce_overhead, c10::kCPU));
  for (const Mode mode : {Mode::eager, Mode::default_, Mode::max_autotune})
    EXPECT_FALSE(unsupported(mode, c10::kCPU)) << to_string(mode);
  std::string note;
  EXPECT_EQ(mode_on(c10::kCPU, Mode::reduce_overhead, &note), Mode::default_);
  EXPECT_NE(note.find("reduce-overhead"), std::string::npos) << note;
  note.clear();
  EXPECT_EQ(mode_on(c10::kCUDA, Mode::reduce_overhead, &note), Mode::reduce_overhead);
  EXPECT_EQ(mode_on(c10::kCPU, Mode::eager, &note), Mode::eager);
  EXPECT_EQ(note, "");
}

/// Counts what it is told, and can be made to lie about calls that were timed alone.
class Table final : public TuningTable {
 public:
  std::optional<TuningEntry> lookup(const TuningKey& key) override {
    if (key.scope == "call" && lie_.count(key.primitive))
      return TuningEntry{lie_.at(key.primitive)};
    const auto it = entries.find(key.text());
    return it == entries.end() ? std::nullopt : std::optional(it->second);
  }
  void store(const TuningKey& key, const TuningEntry& entry) override {
    entries[key.text()] = entry;
    stored.push_back(key);
  }
  std::map<std::string, TuningEntry> entries;
  std::vector<TuningKey> stored;
  std::map<std::string, std::string> lie_;
};

class MaxAutotune : public ::testing::Test {
 protected:
  std::shared_ptr<Table> table = std::make_shared<Table>();
  const Target& conv = find_target("conv2d");
  Network network = conv.network(Shape(conv.sweeps.at("ci").shapes.front()));
  Ensemble ensemble = generate(network, 8, at::kFloat, c10::kCPU, 3);

  void SetUp() override { set_tuning_table(table); }
  void TearDown() override { set_tuning_table(nullptr); }

  std::unique_ptr<CompiledModel> compiled(Mode mode, const std::string& forced = "") const {
    CompileOptions options = in(mode);
    options.tune = true;
    if (!forced.empty()) options.widen.force["conv2d"] = forced;
    return compile(network, ensemble, options);
  }
  std::string strategy_of(const CompiledModel& model) const {
    for (const CoverageItem& item : model.coverage().items)
      if (item.primitive == "conv2d") return item.strategy;
    return "";
  }
  double call_ns(CompiledModel& model) const {
    Tensors inputs;
    for (const size_t i : network.indices(true)) inputs.push_back(ensemble.tensors[i]);
    double best = 1e18;
    for (int i = 0; i < 20; ++i) {
      const double start = now_ns();
      model.run(inputs);
      best = std::min(best, now_ns() - start);
    }
    return best;
  }
};

TEST_F(MaxAutotune, FindsWhatOneCallAloneDoesNotShow) {
  std::map<double, std::string> by_ns;
  for (const Strategy& s : conv.strategies)
    if (!s.only_when_asked) {
      const auto model = compiled(Mode::default_, s.name);
      if (strategy_of(*model) == s.name) by_ns[call_ns(*model)] = s.name;
    }
  ASSERT_GT(by_ns.size(), 1u);
  const auto [slowest_ns, slowest] = *by_ns.rbegin();
  if (slowest_ns < 1.5 * by_ns.begin()->first) GTEST_SKIP() << "all strategies are as fast";
  table->lie_["conv2d"] = slowest;
  EXPECT_EQ(strategy_of(*compiled(Mode::default_)), slowest);
  const auto model = compiled(Mode::max_autotune);
  EXPECT_NE(strategy_of(*model), slowest);
  EXPECT_TRUE(check(network, record_single(network, ensemble), ensemble,
                    as_function(*model, network), conv.tolerance_for(at::kFloat))
                  .pass);

  // It is remembered: by this mode, which measures nothing again, and by mode default.
  const size_t stored = table->stored.size();
  const auto again = compiled(Mode::max_autotune);
  EXPECT_EQ(table->stored.size(), stored);
  EXPECT_EQ(strategy_of(*again), strategy_of(*model));
  EXPECT_EQ(again->ranges(), model->ranges());
  EXPECT_EQ(strategy_of(*compiled(Mode::default_)), strategy_of(*model));
}

TEST_F(MaxAutotune, ABudgetOfNothingIsModeDefault) {
  CompileOptions options = in(Mode::max_autotune);
  options.autotune_s = 1e-9;
  const auto model = compile(network, ensemble, options);
  const auto planned = compiled(Mode::default_);
  EXPECT_EQ(strategy_of(*model), strategy_of(*planned));
}

}  // namespace
}  // namespace wide::modes_test
