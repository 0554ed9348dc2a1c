// Mode reduce-overhead and its host code on a runtime that holds them to a GPU's rules.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/measure/baselines.h"
#include "engine/widen/target.h"
#include "tests/device/fake_runtime.h"
#include "tests/device/mlp.h"

namespace wide::device_graph_test {
namespace {

using Lines = std::vector<std::string>;

CompileOptions captured() {
  CompileOptions options;
  options.mode = Mode::reduce_overhead;
  options.threads = 1;
  options.ranges = 1;
  options.tune = false;
  return options;
}

Network dropout() {
  Network net;
  net.name = "dropout";
  net.random = true;
  net.tensors = {{"x", Role::input, {64, 8}}, {"w", Role::parameter, {8, 8}}};
  net.forward = [](const Tensors& t) {
    return Tensors{at::dropout(at::linear(t[0], t[1]), 0.5, true)};
  };
  return net;
}

/// A network's wide program on the fake runtime, beside its N separate models in float64.
struct Subject {
  Network network;
  Ensemble ensemble;
  Program single;
  std::unique_ptr<CompiledModel> model;

  explicit Subject(Network net, int64_t n = 3, uint64_t seed = 3)
      : network(std::move(net)),
        ensemble(generate(network, n, at::kFloat, c10::kCPU, seed)),
        single(record_single(network, ensemble)),
        model(compile(network, ensemble, captured(), single)) {}

  Tensors inputs() const { return picked(true); }
  Tensors weights() const { return picked(false); }
  Tensors picked(bool input) const {
    Tensors out;
    for (const size_t i : network.indices(input)) out.push_back(ensemble.tensors[i]);
    return out;
  }
  /// The same weights and other inputs.
  void draw_inputs(uint64_t seed) {
    const Ensemble other = generate(network, ensemble.n, at::kFloat, c10::kCPU, seed);
    for (const size_t i : network.indices(true)) ensemble.tensors[i] = other.tensors[i];
  }
  double error() { return max_relative_error(model->run(inputs()), in_double(single, ensemble)); }
};

TEST(DeviceGraphs, ReplaysOnNewInputsAndWeights) {
  FakeRuntime fake;
  Subject s(mlp());
  for (uint64_t seed = 20; seed < 23; ++seed) {
    s.draw_inputs(seed);
    EXPECT_LT(s.error(), 1e-5);
  }
  EXPECT_EQ(fake.count("begin"), 1);
  EXPECT_EQ(fake.count("replay"), 3);
  EXPECT_EQ(fake.allocations_in_captures(), 0) << "the plan has its memory beforehand";
  const Ensemble other = generate(s.network, 3, at::kFloat, c10::kCPU, 99);
  for (const size_t i : s.network.indices(false)) s.ensemble.tensors[i] = other.tensors[i];
  s.model->set_weights(s.weights());
  EXPECT_LT(s.error(), 1e-5);
  EXPECT_EQ(fake.count("begin"), 2);
  EXPECT_EQ(fake.violations(), Lines{});
}

TEST(DeviceGraphs, OutliveWhatElseUsesTheModel) {
  FakeRuntime fake;
  Subject s(mlp());
  EXPECT_LT(s.error(), 1e-5);
  s.draw_inputs(41);
  EXPECT_FALSE(s.model->explain(s.inputs()).empty());
  s.draw_inputs(42);
  EXPECT_LT(s.error(), 1e-5);
  const Tensors kept = s.model->run(s.inputs());
  s.model->explain(s.inputs());
  s.draw_inputs(43);
  EXPECT_LT(s.error(), 1e-5);
  EXPECT_EQ(fake.violations(), Lines{});
}

TEST(DeviceGraphs, CapturingAgainLeavesTheRandomNumbersAlone) {
  FakeRuntime fake;
  Subject s(dropout());
  const auto draw = [&] {
    at::manual_seed(5);
    return s.model->run(s.inputs())[0].clone();
  };
  const Tensor first = draw(), replayed = draw();
  s.model->set_weights(s.weights());
  const Tensor again = draw();
  EXPECT_TRUE(first.equal(replayed));
  EXPECT_TRUE(first.equal(again));
  EXPECT_FALSE(s.model->run(s.inputs())[0].equal(again)) << "every replay draws anew";
  EXPECT_EQ(fake.count("begin"), 2);
  EXPECT_EQ(fake.violations(), Lines{});
}

TEST(DeviceGraphs, AFailedCaptureEnds) {
  FakeRuntime fake;
  Tensor x = at::ones({4}), y = at::zeros({4});
  EXPECT_ANY_THROW(capture(c10::kCPU, [&] {
    y.copy_(x);
    if (fake.capturing()) throw std::runtime_error("refused in a capture");
  }));
  EXPECT_FALSE(fake.capturing());
  // One that the device refuses at its end.
  EXPECT_ANY_THROW(capture(c10::kCPU, [&] { y.fill_(x.sum().item<float>()); }));
  EXPECT_FALSE(fake.capturing());
  EXPECT_EQ(fake.count("abandon"), 2);
  const auto graph = capture(c10::kCPU, [&] { y.copy_(x); });
  x.fill_(7);
  graph->replay();
  EXPECT_EQ(y.min().item<float>(), 7);
}

/// Each rule is broken on purpose, and found under its name.
TEST(DeviceGraphs, TheRulesFindPlantedFaults) {
  const auto found = [](const std::function<void(FakeRuntime&)>& fault) {
    FakeRuntime fake;
    try {
      fault(fake);
    } catch (const std::exception&) {
    }
    const Lines lines = fake.violations();
    return lines.empty() ? std::string() : lines.front();
  };
  EXPECT_EQ(found([](FakeRuntime&) {
              Tensor x = at::ones({4});
              Tensor y = at::zeros({4});
              const auto graph = capture(c10::kCPU, [&] { y.copy_(x); });
              x = at::ones({4});
              graph->replay();
            }),
            "freed memory in a replay: aten::copy_ argument 1");
  EXPECT_EQ(found([](FakeRuntime&) {
              Tensor x = at::ones({4});
              std::unique_ptr<DeviceGraph> graph;
              {
                Tensor y = at::zeros({4});
                graph = capture(c10::kCPU, [&] { y.copy_(x); });
              }
              graph->replay();
            }),
            "freed memory in a replay: aten::copy_ argument 0");
  EXPECT_EQ(found([](FakeRuntime& fake) {
              capture(c10::kCPU, [&] {
                if (fake.capturing()) synchronize(c10::kCPU);
              });
            }),
            "synchronised in a capture");
  EXPECT_EQ(found([](FakeRuntime&) {
              const Tensor x = at::ones({4});
              capture(c10::kCPU, [&] { x.sum().item<float>(); });
            }),
            "host read in a capture: aten::item");
  EXPECT_EQ(found([](FakeRuntime& fake) {
              capture(c10::kCPU, [&] {
                if (fake.capturing()) device_runtime(c10::kCPU)->timer(c10::kCPU)->start();
              });
            }),
            "an event in a capture: start");
  EXPECT_EQ(found([](FakeRuntime&) {
              const auto graph = device_runtime(c10::kCPU)->graph(c10::kCPU);
              at::rand({3});
              graph->begin();
            }),
            "warm-up moved the generator");
  EXPECT_EQ(found([](FakeRuntime&) {
              const auto graph = device_runtime(c10::kCPU)->graph(c10::kCPU);
              graph->begin();
              capture(c10::kCPU, [] {});
            }),
            "synchronised in a capture");
  EXPECT_EQ(found([](FakeRuntime&) { device_runtime(c10::kCPU)->graph(c10::kCPU)->replay(); }),
            "a replay without a capture");
  EXPECT_EQ(found([](FakeRuntime&) { device_runtime(c10::kCPU)->timer(c10::kCPU)->stop(); }),
            "events out of order: stop");
  EXPECT_EQ(found([](FakeRuntime&) {
              const auto timer = device_runtime(c10::kCPU)->timer(c10::kCPU);
              timer->start();
              timer->ns();
            }),
            "events out of order: ns");
}

TEST(DeviceGraphs, BaselinesOfADeviceGiveTheSeparateModelsAnswers) {
  FakeRuntime fake;
  const Network network = mlp();
  const Ensemble ensemble = generate(network, 5, at::kFloat, c10::kCPU, 3);
  const Tensors right = in_double(record_single(network, ensemble), ensemble);
  const auto all = baselines(network, ensemble, 1);
  size_t seen = 0;
  for (const Baseline& b : all) {
    if (b.name != "streams" && b.name != "graph") continue;
    ++seen;
    ASSERT_EQ(b.unavailable, "") << b.name;
    for (int i = 0; i < 3; ++i) b.call();
    EXPECT_LT(max_relative_error(b.run(), right), 1e-5) << b.name;
  }
  EXPECT_EQ(seen, 2u);
  EXPECT_EQ(fake.violations(), Lines{});
}

class DeviceTargets : public ::testing::TestWithParam<std::string> {};

/// Every target as one captured graph: right, isolated, in order, with new weights, by the rules.
TEST_P(DeviceTargets, AreRightAsAGraph) {
  const at::NoGradGuard no_grad;
  const Target& target = find_target(GetParam());
  if (target.may_not_fit) GTEST_SKIP() << "its networks are for machines with more memory";
  FakeRuntime fake;
  Subject s(target.network(target.sweeps.at("ci").shapes.front()));
  const Correctness c = check(s.network, s.single, s.ensemble, as_function(*s.model, s.network),
                              target.tolerance_for(at::kFloat));
  EXPECT_TRUE(c.pass) << c.failure;
  EXPECT_GT(fake.count("replay"), 2);
  EXPECT_EQ(fake.violations(), Lines{});
}

Lines names() {
  Lines all;
  for (const Target* target : targets()) all.push_back(target->name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, DeviceTargets, ::testing::ValuesIn(names()),
                         [](const auto& named) { return named.param; });

}  // namespace
}  // namespace wide::device_graph_test
