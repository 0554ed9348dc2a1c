// Graphs of the simulated device, and the engine's modes on it.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include "app/trial/outcome.h"
#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/device.h"
#include "engine/measure/baselines.h"
#include "engine/widen/derivative.h"
#include "tests/device/mlp.h"
#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

using Lines = std::vector<std::string>;

const at::TensorOptions& there() {
  static const at::TensorOptions options = (install(), at::TensorOptions().device(kDevice));
  return options;
}

class SimulatedGraphs : public ::testing::Test {
 protected:
  void SetUp() override {
    there();
    Streams::get().reset(1);
  }
  void TearDown() override { Streams::get().reset(1); }
  static Lines violations() { return Streams::get().violations; }
};

TEST_F(SimulatedGraphs, ReplayWhatWasRecorded) {
  const Tensor x = at::arange(4, there()).to(at::kFloat);
  Tensor y = at::zeros({4}, there()), kept;
  const auto graph = capture(kDevice, [&] {
    kept = at::matmul(x.view({2, 2}), x.view({2, 2})) + 1;
    y.copy_(kept.view({4}));
  });
  for (int i = 0; i < 3; ++i) {
    x.add_(1);
    y.zero_();
    graph->replay();
    const Tensor on_cpu = x.cpu().view({2, 2});
    EXPECT_TRUE(y.cpu().equal((at::matmul(on_cpu, on_cpu) + 1).view({4})));
  }
  EXPECT_EQ(Streams::get().replays, 3);
  EXPECT_EQ(violations(), Lines{});
}

TEST_F(SimulatedGraphs, DrawAnewAtEveryReplay) {
  Tensor y = at::zeros({50}, there());
  const auto draws = [&] { y.copy_(at::rand({50}, there()).add(at::rand({50}, there()))); };
  at::manual_seed(3);
  draws();
  const Tensor first = y.clone();
  draws();
  const Tensor second = y.clone();
  const auto graph = capture(kDevice, draws);
  at::manual_seed(3);
  graph->replay();
  EXPECT_TRUE(y.equal(first));
  graph->replay();
  EXPECT_TRUE(y.equal(second));
  EXPECT_EQ(violations(), Lines{});
}

TEST_F(SimulatedGraphs, ForkAndJoinByEvents) {
  const Tensor x = at::ones({4}, there());
  Tensor a = at::zeros({4}, there()), b = at::zeros({4}, there()), sum = at::zeros({4}, there());
  synchronize(kDevice);
  const Work two =
      device_runtime(kDevice.type())
          ->on_streams(kDevice, {[&] { a.copy_(x).mul_(2); }, [&] { b.copy_(x).mul_(3); }}, 2);
  const auto graph = capture(kDevice, [&] {
    two();
    sum.copy_(a).add_(b);
  });
  for (uint64_t seed = 1; seed < 20; ++seed) {
    Streams::get().reset(seed);
    x.fill_(static_cast<double>(seed));
    graph->replay();
    EXPECT_EQ(sum.min().item<float>(), 5.0F * static_cast<float>(seed));
    EXPECT_EQ(violations(), Lines{});
  }
}

TEST_F(SimulatedGraphs, WorkThatReadsOnTheHostIsUnsupported) {
  const Tensor x = at::ones({4}, there());
  Tensor y = at::zeros({4}, there());
  const auto outcome = [](const Work& work) {
    try {
      capture(kDevice, work);
    } catch (...) {
      return outcome_of(std::current_exception(), "", {});
    }
    return Outcome{Status::ok, ""};
  };
  const Outcome read = outcome([&] { y.fill_(x.sum().item<float>()); });
  EXPECT_EQ(read.status, Status::unsupported);
  EXPECT_EQ(read.reason.rfind("[graph] capture: got [simulated] ", 0), 0U) << read.reason;
  EXPECT_NE(read.reason.find("; try mode default"), std::string::npos) << read.reason;
  // What fails outside of captures too is an error of the work.
  EXPECT_EQ(outcome([&] { y.copy_(at::ones({3}, there())); }).status, Status::crashed);
}

TEST_F(SimulatedGraphs, AFailedCaptureEnds) {
  const Tensor x = at::ones({4}, there());
  Tensor y = at::zeros({4}, there());
  EXPECT_THROW(capture(kDevice, [&] { y.fill_(x.sum().item<float>()); }), c10::Error);
  EXPECT_FALSE(Streams::get().capturing());
  const auto graph = capture(kDevice, [&] { y.copy_(x); });
  x.fill_(7);
  graph->replay();
  EXPECT_EQ(y.min().item<float>(), 7);
}

TEST_F(SimulatedGraphs, BothModesOfTheEngineRun) {
  const at::NoGradGuard no_grad;
  const Network network = mlp();
  for (const Mode mode : {Mode::default_, Mode::reduce_overhead})
    for (const bool tune : {false, true}) {
      SCOPED_TRACE(fmt::format("{} tune {}", to_string(mode), tune));
      const Ensemble ensemble = generate(network, 3, at::kFloat, kDevice, 3);
      const Program single = record_single(network, ensemble);
      CompileOptions options;
      options.mode = mode;
      options.threads = 1;
      options.tune = tune;
      const auto model = compile(network, ensemble, options, single);
      const Correctness c = check(network, single, ensemble, as_function(*model, network), 1e-5);
      EXPECT_TRUE(c.pass) << c.failure;
      Tensors inputs{ensemble.tensors[0]};
      EXPECT_FALSE(model->explain(inputs).empty());
      model->timeline(inputs);
      EXPECT_LT(max_relative_error(model->run(inputs), in_double(single, ensemble)), 1e-5);
      EXPECT_EQ(violations(), Lines{});
    }
  EXPECT_GT(Streams::get().replays, 4);
}

/// `at::prelu` has no form that writes into given memory: what it returns is handed to the caller.
TEST_F(SimulatedGraphs, ResultsThatOperatorsAllocateAreNotCopied) {
  const at::NoGradGuard no_grad;
  Network network;
  network.name = "activation";
  network.tensors = {{"x", Role::input, {5, 7}}, {"w", Role::parameter, {7}}};
  network.forward = [](const Tensors& t) { return Tensors{at::prelu(t[0], t[1])}; };
  const Ensemble ensemble = generate(network, 3, at::kFloat, kDevice, 3);
  const Tensor x = ensemble.tensors[0], w = ensemble.tensors[1].cpu();
  for (const Mode mode : {Mode::default_, Mode::reduce_overhead}) {
    CompileOptions options;
    options.mode = mode;
    options.tune = false;
    const auto model = compile(network, ensemble, options);
    EXPECT_NE(model->plan_text().find(" 0 results copied out"), std::string::npos)
        << model->plan_text();
    const Tensors inputs{x, x.neg(), x.mul(3)};
    Tensors results;
    for (const Tensor& input : inputs) results.push_back(model->run({input})[0]);
    for (size_t k = 0; k < inputs.size(); ++k) {
      const Tensor in = inputs[k].cpu();
      EXPECT_TRUE(results[k].cpu().equal(at::where(in > 0, in, in * w.unsqueeze(1)))) << k;
    }
  }
  EXPECT_EQ(violations(), Lines{});
}

/// How many calls and copies `work` asks of the device.
int64_t launches_of(const Work& work) {
  const int64_t before = Streams::get().launches;
  work();
  synchronize(kDevice);
  return Streams::get().launches - before;
}

TEST_F(SimulatedGraphs, WhatIsTimedIsTheReplayAlone) {
  const at::NoGradGuard no_grad;
  const Network network = mlp();
  Ensemble ensemble = generate(network, 3, at::kFloat, kDevice, 3);
  CompileOptions options;
  options.mode = Mode::reduce_overhead;
  options.tune = false;
  const auto model = compile(network, ensemble, options);
  const Tensors inputs{ensemble.tensors[0]};
  const auto timed = model->repeated(inputs, {});
  const Tensors results = timed();
  const Tensors right = in_double(model->single(), ensemble);
  EXPECT_LT(max_relative_error(results, right), 1e-5);
  EXPECT_EQ(launches_of([&] { EXPECT_TRUE(timed()[0].is_same(results[0])); }), 0)
      << "something is called beside the replay";
  EXPECT_GE(launches_of([&] { model->run(inputs); }), 2) << "an input in, a result out";
  // Other inputs and weights in between: the timed call captures again, on its own inputs.
  model->run({inputs[0].neg()});
  const Ensemble other = generate(network, 3, at::kFloat, kDevice, 9);
  for (const size_t i : network.indices(false)) ensemble.tensors[i] = other.tensors[i];
  model->set_weights({ensemble.tensors[1], ensemble.tensors[2], ensemble.tensors[3]});
  EXPECT_LT(max_relative_error(timed(), in_double(model->single(), ensemble)), 1e-5);
  EXPECT_EQ(violations(), Lines{});
}

TEST_F(SimulatedGraphs, TimedStepsStartFromWhatTheLastOneGave) {
  const at::NoGradGuard no_grad;
  const Network inner = mlp();
  const Program plain = record_single(inner, generate(inner, 1, at::kFloat, c10::kCPU, 3));
  const Network network = phase_network(inner, plain, "step", "adam");
  Ensemble by_hand = generate(network, 3, at::kFloat, c10::kCPU, 3);
  const Program on_cpu = record_single(network, by_hand);
  for (int step = 0; step < 3; ++step) {
    const Tensors next = separate(on_cpu, by_hand);
    for (const auto& [output, tensor] : network.derivative->feedback())
      by_hand.tensors[tensor] = next[output];
  }
  const Tensors fourth = in_double(on_cpu, by_hand);
  const Ensemble ensemble = generate(network, 3, at::kFloat, kDevice, 3);
  FedBack back;
  Tensors inputs;
  const auto at = network.indices(true);
  for (const size_t i : at) inputs.push_back(ensemble.tensors[i]);
  for (const auto& [output, tensor] : network.derivative->feedback())
    back.emplace_back(output, std::find(at.begin(), at.end(), tensor) - at.begin());
  for (const Mode mode : {Mode::default_, Mode::reduce_overhead}) {
    CompileOptions options;
    options.mode = mode;
    options.tune = false;
    const auto model = compile(network, ensemble, options);
    const auto step = model->repeated(inputs, back);
    Tensors results;
    for (int k = 0; k < 4; ++k) results = step();
    EXPECT_LT(max_relative_error(results, fourth), 1e-4) << to_string(mode);
  }
  EXPECT_EQ(violations(), Lines{});
}

/// What its caller pays is timed as ours is: inputs that come from elsewhere, results taken away.
TEST_F(SimulatedGraphs, TheGraphBaselineIsTimedWithItsCopiesToo) {
  const Network network = mlp();
  const Ensemble ensemble = generate(network, 5, at::kFloat, kDevice, 3);
  const auto only = [](const std::string& name) { return name == "graph"; };
  const Baseline graph = baselines(network, ensemble, 1, only).at(0);
  ASSERT_TRUE(graph.call_with_packing);
  graph.call();
  const int64_t alone = launches_of(graph.call);
  EXPECT_GE(launches_of(graph.call_with_packing), alone + 5 * 2);
  EXPECT_EQ(violations(), Lines{});
}

TEST_F(SimulatedGraphs, BaselinesGiveTheSeparateModelsAnswers) {
  const Network network = mlp();
  const Ensemble ensemble = generate(network, 5, at::kFloat, kDevice, 3);
  const Tensors right = in_double(record_single(network, ensemble), ensemble);
  std::set<std::string> seen;
  for (const Baseline& b : baselines(network, ensemble, 1)) {
    if (!b.unavailable.empty()) continue;
    seen.insert(b.name);
    for (int i = 0; i < 3; ++i) b.call();
    EXPECT_LT(max_relative_error(b.run(), right), 1e-5) << b.name;
  }
  for (const char* name : {"loop", "streams", "graph"}) EXPECT_TRUE(seen.count(name)) << name;
  EXPECT_EQ(violations(), Lines{});
}

/// Optimisers take their learning rate on the device: a graph could not hold a number that the host
/// reads.
TEST_F(SimulatedGraphs, BaselinesTakeTheStepsOfEveryOptimiser) {
  const at::NoGradGuard no_grad;
  const Network inner = mlp();
  const Program plain = record_single(inner, generate(inner, 1, at::kFloat, c10::kCPU, 3));
  for (const Optimizer& optimizer : optimizers()) {
    SCOPED_TRACE(optimizer.name);
    const Network network = phase_network(inner, plain, "step", optimizer.name);
    const Ensemble on_cpu = generate(network, 3, at::kFloat, c10::kCPU, 3);
    const Tensors right = in_double(record_single(network, on_cpu), on_cpu);
    const Ensemble ensemble = generate(network, 3, at::kFloat, kDevice, 3);
    std::set<std::string> seen;
    for (const Baseline& b : baselines(network, ensemble, 1)) {
      if (!b.unavailable.empty()) continue;
      seen.insert(b.name);
      for (int i = 0; i < 2; ++i) b.call();
      EXPECT_LT(max_relative_error(b.run(), right), 1e-5) << b.name;
    }
    for (const char* name : {"loop", "streams", "graph", "vmap"})
      EXPECT_TRUE(seen.count(name)) << name;
    EXPECT_EQ(violations(), Lines{});
  }
}

}  // namespace
}  // namespace wide::simulated
