#include "engine/lower/tune/tuning.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/compile.h"
#include "engine/lower/tune/tune.h"
#include "engine/widen/target.h"

namespace wide::tuning_test {
namespace {

/// Remembers what it is asked and told.
class Watched final : public TuningTable {
 public:
  std::optional<TuningEntry> lookup(const TuningKey& key) override {
    asked.push_back(key);
    const auto it = entries.find(key.text());
    return it == entries.end() ? std::nullopt : std::optional(it->second);
  }
  void store(const TuningKey& key, const TuningEntry& entry) override {
    entries[key.text()] = entry;
    keys.push_back(key);
  }
  std::vector<TuningKey> asked, keys;
  std::map<std::string, TuningEntry> entries;
};

class Tuning : public ::testing::Test {
 protected:
  std::shared_ptr<Watched> table = std::make_shared<Watched>();
  const Target& linear = find_target("linear");
  Network network = linear.network(linear.sweeps.at("ci").shapes.front());
  Ensemble ensemble = generate(network, 4, at::kFloat, c10::kCPU, 3);

  void SetUp() override { set_tuning_table(table); }
  void TearDown() override { set_tuning_table(nullptr); }

  std::unique_ptr<CompiledModel> compiled(bool tune = true) const {
    CompileOptions options;
    options.threads = 2;
    options.tune = tune;
    return compile(network, ensemble, options);
  }
  std::vector<TuningKey> looked_up() const {
    CompileOptions options;
    options.threads = 2;
    return choose_strategies(network, ensemble, options, record_single(network, ensemble), "linear")
        .keys;
  }
  std::string strategy_of(const CompiledModel& model) const {
    for (const CoverageItem& item : model.coverage().items)
      if (item.primitive == "linear") return item.strategy;
    return "";
  }
  std::vector<std::string> choices() const {
    std::vector<std::string> names;
    for (const Strategy& s : linear.strategies)
      if (!s.only_when_asked) names.push_back(s.name);
    return names;
  }
};

TEST_F(Tuning, WhatWonOnceIsTakenAgainWithoutMeasuring) {
  const auto model = compiled();
  const std::vector<TuningKey> keys = looked_up();
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].scope, "network");
  EXPECT_EQ(keys[0].n, 4);
  EXPECT_EQ(keys[0].threads, 2);
  EXPECT_EQ(keys[0].dtype, "Float");
  EXPECT_EQ(keys[0].device, "cpu");
  ASSERT_FALSE(table->keys.empty());  // calls that were timed alone
  for (const TuningKey& key : table->keys) EXPECT_EQ(key.scope, "call");

  // Whatever it is: what somebody stored for the whole network is what is taken, by all ranges.
  for (const std::string& name : choices()) {
    table->store(keys[0], {name, 1.0});
    const size_t stored = table->keys.size();
    EXPECT_EQ(strategy_of(*compiled()), name);
    EXPECT_EQ(table->keys.size(), stored) << "it has measured";
  }
  table->store(keys[0], {"of another version", 1.0});
  EXPECT_NE(strategy_of(*compiled()), "of another version");
}

TEST_F(Tuning, KeysTellApartWhatMatters) {
  const auto key = looked_up().at(0).text();
  ensemble = generate(network, 5, at::kFloat, c10::kCPU, 3);
  EXPECT_NE(looked_up().at(0).text(), key);  // N
  ensemble = generate(network, 4, at::kDouble, c10::kCPU, 3);
  EXPECT_NE(looked_up().at(0).text(), key);  // dtype
  ensemble = generate(network, 4, at::kFloat, c10::kCPU, 9);
  EXPECT_EQ(looked_up().at(0).text(), key);  // the values do not matter
  ensemble.tensors[0] = ensemble.tensors[0][0].clone();
  ensemble.shared[0] = true;
  EXPECT_NE(looked_up().at(0).text(), key);  // one input for all
}

TEST_F(Tuning, WithoutMeasuringItEstimates) {
  const auto model = compiled(/*tune=*/false);
  EXPECT_TRUE(table->keys.empty());
  const auto names = choices();
  EXPECT_NE(std::find(names.begin(), names.end(), strategy_of(*model)), names.end());
}

TEST_F(Tuning, AnEstimateSeesWorkBytesAndLaunches) {
  Strategy one = linear.strategies.front(), slow = one, many = one;
  slow.run = [run = one.run](const std::any& c, const WideCall& call) {
    WideCall twice = call;
    twice.inputs[0] = at::cat({call.inputs[0], call.inputs[0], call.inputs[0]}, 1);
    return Tensors{run(c, twice)[0].narrow(1, 0, call.inputs[0].size(1))};
  };
  many.run = [run = one.run](const std::any& c, const WideCall& call) {
    Tensor y = run(c, call)[0];
    for (int i = 0; i < 50; ++i) y = y.flip(1);  // no chain is made of these
    return Tensors{y};
  };
  WideCall seen;
  std::any config;
  WidenOptions options;
  options.choose = [&](const ClaimedCall& claimed) {
    seen = claimed.call;
    config = claimed.config;
    return claimed.applicable.front();
  };
  const Program single = record_single(network, ensemble);
  std::vector<WideValue> bound;
  for (const Tensor& t : ensemble.tensors) bound.push_back({t, true});
  evaluate_wide(single, 4, bound, options, nullptr);
  TunerOptions how;
  how.n = 4;
  const auto ns = [&](const Strategy& s) {
    return estimate_strategy(linear, s, config, seen, how);
  };
  EXPECT_GT(ns(one), 0);
  EXPECT_GT(ns(slow), 1.5 * ns(one));
  EXPECT_GT(ns(many), ns(one) + 50 * 400);
}

TEST_F(Tuning, ResultsInAnotherOrderCostThoseWhoReadThem) {
  const auto made = [](const std::function<Tensor(const Tensor&)>& order) {
    return record(
        {{"x", Role::input, at::randn({2, 3, 4}), true}},
        [&](const Tensors& t) { return Tensors{order(at::exp(t[0]))}; }, 2);
  };
  EXPECT_EQ(with_readers_ns(made([](const Tensor& y) { return y; }), 100), 100);
  EXPECT_EQ(with_readers_ns(made([](const Tensor& y) { return y.flatten(1); }), 100), 100);
  EXPECT_GT(with_readers_ns(made([](const Tensor& y) { return y.transpose(1, 2); }), 100), 105);
}

TEST(TuningInMemory, IsWhatThereIsUntilAnotherIsSet) {
  set_tuning_table(nullptr);
  TuningKey key;
  key.scope = "network";
  key.primitive = "linear";
  EXPECT_FALSE(tuning_table().lookup(key));
  tuning_table().store(key, {"einsum", 12.5});
  EXPECT_EQ(tuning_table().lookup(key)->strategy, "einsum");
  EXPECT_EQ(tuning_table().lookup(key)->median_ns, 12.5);
  key.n = 1;
  EXPECT_FALSE(tuning_table().lookup(key));
  set_tuning_table(nullptr);
}

}  // namespace
}  // namespace wide::tuning_test
