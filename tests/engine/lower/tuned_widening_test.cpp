#include "engine/lower/tune/tuned_widening.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/wide.h"

namespace wide::tuned_widening_test {
namespace {

struct Config {
  std::string text() const { return "planted"; }
};

Strategy computes(const std::string& name, Tensor (*function)(const Tensor&), int64_t most) {
  return strategy<Config>(
      name, "",
      [function](const Config&, const WideCall& call) { return Tensors{function(call.inputs[0])}; },
      [name, most](const Config&, const WideCall& call) -> Applies {
        if (call.n <= most) return std::nullopt;
        return reason(name, "models", fmt::format("{}", call.n), fmt::format("at most {}", most),
                      "fewer");
      });
}

Rule claims(const std::string& name, const std::string& op, std::vector<Strategy> strategies) {
  const auto match = [](const CallView& call) -> std::optional<Claimed> {
    return Claimed{Config{}, {call.id(0)}, {}};
  };
  return {.name = name,
          .summary = "planted",
          .claims = {{op, match}},
          .strategies = std::move(strategies)};
}

// What applies differs with the number of models: to the first at two of them only, to the second
// another strategy from three on, to the third always the same.
WIDE_RULES(claims("planted_small", "aten::erfinv", {computes("small", at::erfinv, 2)}),
           claims("planted_either", "aten::lgamma",
                  {computes("few", at::lgamma, 2), computes("many", at::lgamma, 99)}),
           claims("planted_same", "aten::digamma",
                  {computes("one", at::digamma, 99), computes("two", at::digamma, 99)}));

class Choices : public ::testing::Test {
 protected:
  Network network;
  Ensemble ensemble;
  int64_t recorded = 0;

  void SetUp() override {
    set_tuning_table(nullptr);
    network.name = "planted";
    network.tensors = {{"x", Role::input, {5}}};
    network.forward = [this](const Tensors& t) {
      ++recorded;
      const Tensor first = at::erfinv(at::tanh(t[0])), positive = at::abs(t[0]) + 1;
      const Tensor second = at::lgamma(positive), third = at::digamma(positive);
      return Tensors{first + second, third};
    };
    network.instantiate = [this](const Tensors& weights) { return wide::bind(network, weights); };
    ensemble = generate(network, 6, at::kFloat, at::kCPU, 3);
  }
  void TearDown() override { set_tuning_table(nullptr); }

  std::unique_ptr<CompiledModel> compiled(int ranges, std::optional<Program> single = {}) const {
    CompileOptions options;
    options.threads = 2;
    options.tune = false;
    options.ranges = ranges;
    return compile(network, ensemble, options, std::move(single));
  }
  std::shared_ptr<WithGradients> gradients(const std::vector<size_t>& of) const {
    return std::make_shared<WithGradients>("planted", record_single(network, ensemble, true), of,
                                           Cotangents::bound);
  }
  /// The ensemble with a cotangent for each output.
  Ensemble with_cotangents() const {
    Ensemble all = ensemble;
    for (size_t k = network.forward(ensemble.model(0)).size(); k > 0; --k)
      all.tensors.push_back(at::ones({6, 5}));
    all.shared.resize(all.tensors.size(), false);
    return all;
  }
  static TunedWidening chosen_for(const std::shared_ptr<WithGradients>& what,
                                  const Ensemble& models) {
    TunerOptions tuner;
    tuner.n = 6;
    tuner.gradients = true;
    TunedWidening widening(evaluation_of(what), std::make_shared<const Program>(what->form()), {},
                           tuner);
    widening.choose(models);
    return widening;
  }
  StrategyChoice chosen(int ranges, const std::string& primitive) const {
    CompileOptions options;
    options.threads = 2;
    options.tune = false;
    options.ranges = ranges;
    return choose_strategies(network, ensemble, options, record_single(network, ensemble),
                             primitive);
  }
  static std::string runs(const CompiledModel& model, const std::string& primitive) {
    for (const CoverageItem& item : model.coverage().items)
      if (item.primitive == primitive) return item.strategy;
    return "";
  }
  static std::string shown(const CompiledModel& model, const std::string& op) {
    for (const Node& node : model.program().nodes)
      if (node.name() == op) return node.origin.primitive + "/" + node.origin.strategy;
    return "";
  }
};

TEST_F(Choices, GoByTheCallWhereWhatAppliesDiffersWithN) {
  // Not the first that applies, so that taking over what was chosen can be told from choosing anew.
  for (const TuningKey& key : chosen(3, "planted_same").keys)
    tuning_table().store(key, {"two", 1.0});
  const auto model = compiled(3);
  EXPECT_EQ(runs(*model, "planted_small"), "small");
  EXPECT_EQ(runs(*model, "planted_either"), "few");
  EXPECT_EQ(runs(*model, "planted_same"), "two");

  EXPECT_EQ(shown(*model, "aten::erfinv"), "/vmap");
  EXPECT_EQ(shown(*model, "aten::lgamma"), "planted_either/many");
  EXPECT_EQ(shown(*model, "aten::digamma"), "planted_same/two");
  EXPECT_EQ(
      model->differences(),
      (std::vector<std::string>{
          "node 1, aten::erfinv: runs as planted_small/small, which does not apply to "
          "all models at once: shown as vmap, [small] models: got 6, expected at most 2; try fewer",
          "node 4, aten::lgamma: runs as planted_either/few, which does not apply to "
          "all models at once: shown as planted_either/many, [few] models: got 6, expected at most "
          "2; "
          "try fewer"}));
  const Tensors expected = in_double(record_single(network, ensemble), ensemble);
  EXPECT_LT(max_relative_error(model->run(ensemble.tensors), expected), 1e-5);
  EXPECT_LT(max_relative_error(interpret(model->program(), ensemble.tensors), expected), 1e-5);
}

TEST_F(Choices, AreShownAsTheyRunWhereTheyApply) {
  for (const int ranges : {1, 6}) EXPECT_EQ(runs(*compiled(ranges), "planted_same"), "one");
  const auto whole = compiled(1);
  EXPECT_EQ(runs(*whole, "planted_either"), "many");
  EXPECT_TRUE(whole->differences().empty());
}

TEST_F(Choices, AreTheSameWithoutAProgramToRun) {
  for (const TuningKey& key : chosen(3, "planted_same").keys)
    tuning_table().store(key, {"two", 1.0});
  for (const int ranges : {1, 2, 3, 6}) {
    const auto model = compiled(ranges);
    const std::vector<CoverageItem> items = chosen(ranges, "planted_same").coverage.items;
    ASSERT_EQ(items.size(), model->coverage().items.size()) << ranges;
    for (size_t i = 0; i < items.size(); ++i)
      EXPECT_EQ(items[i].strategy, model->coverage().items[i].strategy) << ranges << ", " << i;
  }
}

TEST_F(Choices, ProgramOfOneModelIsRecordedOnce) {
  const Program single = record_single(network, ensemble);
  EXPECT_EQ(recorded, 1);
  const auto given = compiled(3, single), own = compiled(3);
  EXPECT_EQ(recorded, 2) << "the first had its program";
  EXPECT_EQ(given->single().text(), own->single().text());
  EXPECT_EQ(given->program().text(), own->program().text());
}

TEST_F(Choices, ForGradientsAreMadeOnTheWayForwardAlone) {
  const auto what = gradients({0});
  const Ensemble some = with_cotangents().models(0, 2);
  const TunedWidening widening = chosen_for(what, some);
  EXPECT_TRUE(what->differentiable().empty()) << "a way back was computed";
  const TunedWidening::Strategies chosen = widening.by_call(2);
  EXPECT_EQ(chosen.size(), 3u);
  const WideProgram made = widening.widen_as_for(2, some);
  EXPECT_EQ(what->differentiable(), (std::vector<bool>{true, true}));
  EXPECT_EQ(made.program.outputs.size(), 3u);
  for (const CoverageItem& item : made.coverage.items) {
    if (item.primitive.empty()) continue;
    EXPECT_EQ(item.strategy, chosen.at({item.node, item.primitive}));
  }
}

TEST_F(Choices, DifferentiateACallForInputsThatGetGradientsAlone) {
  network.tensors = {{"x", Role::input, {5}}, {"w", Role::parameter, {5}}};
  network.forward = [](const Tensors& t) {
    return Tensors{at::lgamma(at::abs(t[0]) + 1) * at::digamma(at::abs(t[0] * t[1]) + 1)};
  };
  ensemble = generate(network, 6, at::kFloat, at::kCPU, 3);
  const auto keys = [&](const std::vector<size_t>& of) {
    const TunedWidening widening = chosen_for(gradients(of), with_cotangents().models(0, 2));
    return std::vector<std::string>{widening.keys("planted_either").at(0).config,
                                    widening.keys("planted_same").at(0).config};
  };
  EXPECT_EQ(keys({1}), (std::vector<std::string>{"planted gradients ", "planted gradients 0"}));
  EXPECT_EQ(keys({0, 1}), (std::vector<std::string>{"planted gradients 0", "planted gradients 0"}));
}

TEST_F(Choices, AreEstimatedWithoutGradientsThatNobodyReads) {
  const Strategy product = strategy<Config>("product", "", [](const Config&, const WideCall& call) {
    return Tensors{at::bmm(call.inputs[0], call.inputs[1])};
  });
  const Rule rule = claims("planted_product", "aten::bmm", {product});
  TunerOptions tuner;
  tuner.n = 2;
  tuner.gradients = true;
  const auto estimated_ns = [&](bool first, bool second) {
    WideCall call;
    call.n = 2;
    for (const bool required : {first, second})
      call.inputs.push_back(at::rand({2, 300, 300}).requires_grad_(required));
    call.shared = {false, false};
    return estimate_strategy(rule, product, Config{}, call, tuner);
  };
  const double three = estimated_ns(true, true);  // products: one forward, two backward
  EXPECT_NEAR(estimated_ns(false, true), three * 2 / 3, three / 8);
  EXPECT_NEAR(estimated_ns(true, false), three * 2 / 3, three / 8);
}

TEST_F(Choices, AreRememberedForEachNumberOfModels) {
  TunerOptions tuner;
  tuner.n = 6;
  tuner.measure = false;  // of equally long ones the first
  TunedWidening widening({}, std::make_shared<const Program>(record_single(network, ensemble)), {},
                         tuner);
  const auto either = [&](int64_t n) {
    for (const TunedChoice& choice : widening.choices(n))
      if (choice.key.primitive == "planted_either") return choice.strategy;
    return std::string();
  };
  for (const int64_t n : {2, 3, 6}) widening.widen(ensemble.models(0, n));
  EXPECT_EQ(either(2), "few");
  EXPECT_EQ(either(3), "many");
  EXPECT_EQ(either(6), "many");
  EXPECT_EQ(either(4), "") << "nothing was chosen for four";
}

TEST_F(Choices, AreTakenOverWhereTheyApply) {
  const auto single = std::make_shared<const Program>(record_single(network, ensemble));
  TunerOptions tuner;
  tuner.n = 6;
  TunedWidening widening({}, single, {}, tuner);
  TunedWidening::Strategies strategies;
  const WideProgram own = widening.widen(ensemble.models(0, 2));
  for (const CoverageItem& item : own.coverage.items)
    if (!item.primitive.empty()) strategies[{item.node, item.primitive}] = item.strategy;
  ASSERT_EQ(strategies.size(), 3u);
  for (auto& [call, strategy] : strategies) {
    if (call.second == "planted_same") strategy = "two";
    if (call.second == "planted_either") strategy = "few";  // of at most two
  }
  widening.take(strategies);
  widening.choose(ensemble);
  EXPECT_EQ(widening.by_call(6), strategies);
  const WideProgram made = widening.widen(ensemble);
  std::map<std::string, std::string> runs;
  for (const CoverageItem& item : made.coverage.items) runs[item.primitive] = item.strategy;
  EXPECT_EQ(runs.at("planted_same"), "two");
  EXPECT_EQ(runs.at("planted_either"), "many");
  EXPECT_EQ(runs.count("planted_small"), 0u);
}

TEST(WideModel, RecordsOnceForItsSizesAndForWhatItExports) {
  int recorded = 0;
  const Module relu{[&](const Tensors& in) {
                      ++recorded;
                      return Tensors{at::relu(in[0])};
                    },
                    {},
                    {}};
  WideModel model = wide::compile(relu, 3, {at::randn({5})}, Builder().tune(false));
  model.run({at::randn({3, 5})});
  model.export_to(::testing::TempDir() + "recorded_once.ts");
  EXPECT_EQ(recorded, 1);
}

}  // namespace
}  // namespace wide::tuned_widening_test
