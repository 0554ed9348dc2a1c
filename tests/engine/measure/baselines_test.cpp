#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/functorch/BatchedFallback.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "engine/check/check.h"
#include "engine/device.h"
#include "engine/measure/baselines.h"
#include "engine/measure/measure.h"

namespace wide::baselines_test {
namespace {

Network mlp() {
  Network net;
  net.name = "mlp";
  net.tensors = {{"x", Role::input, {4, 6}},
                 {"weight", Role::parameter, {5, 6}},
                 {"bias", Role::parameter, {5}}};
  net.forward = [](const Tensors& t) -> Tensors {
    return {at::relu(at::linear(t[0], t[1], t[2]))};
  };
  return net;
}

Network batch_norm() {
  Network net;
  net.name = "batch_norm";
  net.training = true;
  net.tensors = {{"x", Role::input, {4, 3, 5, 5}},
                 {"gamma", Role::parameter, {3}, at::kFloat, Fill::near_one},
                 {"beta", Role::parameter, {3}},
                 {"mean", Role::buffer, {3}, at::kFloat, Fill::zeros},
                 {"var", Role::buffer, {3}, at::kFloat, Fill::positive}};
  net.forward = [](const Tensors& t) -> Tensors {
    return {at::batch_norm(t[0], t[1], t[2], t[3], t[4], true, 0.1, 1e-5, false), t[3].clone()};
  };
  return net;
}

const Baseline& named(const std::vector<Baseline>& all, const std::string& name) {
  for (const Baseline& b : all)
    if (b.name == name) return b;
  throw std::out_of_range(name);
}

Tensors expected(const Network& network, const Ensemble& ensemble) {
  std::vector<Tensors> columns;
  for (int64_t i = 0; i < ensemble.n; ++i) {
    Tensors model;
    for (const Tensor& t : ensemble.model(i)) model.push_back(t.clone());
    const Tensors outputs = network.forward(model);
    columns.resize(outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k) columns[k].push_back(outputs[k]);
  }
  Tensors stacked;
  for (const Tensors& column : columns) stacked.push_back(at::stack(column));
  return stacked;
}

TEST(Baselines, AllGiveTheSeparateModelsAnswers) {
  for (const Network& network : {mlp(), batch_norm()}) {
    const Ensemble ensemble = generate(network, 5, at::kFloat, c10::kCPU, 3);
    const Tensors right = expected(network, ensemble);
    for (const Baseline& baseline : baselines(network, ensemble, 2)) {
      EXPECT_EQ(baseline.unavailable, "") << network.name << " " << baseline.name;
      ASSERT_TRUE(baseline.call && baseline.run) << network.name << " " << baseline.name;
      for (int i = 0; i < 3; ++i) baseline.call();
      // What was timed has moved the buffers of its own models, not of anybody else's.
      EXPECT_LT(max_relative_error(baseline.run(), right), 1e-5)
          << network.name << " " << baseline.name;
    }
    EXPECT_LT(max_relative_error(expected(network, ensemble), right), 1e-7);
  }
}

TEST(Baselines, SharedTensorsAreGivenWithoutN) {
  const Network network = mlp();
  Ensemble ensemble = generate(network, 3, at::kFloat, c10::kCPU, 3);
  ensemble.tensors[0] = ensemble.tensors[0][0].clone();
  ensemble.shared[0] = true;
  const Tensors right = expected(network, ensemble);
  for (const Baseline& baseline : baselines(network, ensemble, 2))
    EXPECT_LT(max_relative_error(baseline.run(), right), 1e-5) << baseline.name;
}

TEST(Baselines, OutputsWithoutModelsInThemAreRepeatedByVmap) {
  Network network = mlp();
  network.forward = [](const Tensors& t) -> Tensors {
    return {at::linear(t[0], t[1], t[2]), at::ones({2, 3})};
  };
  const Ensemble ensemble = generate(network, 3, at::kFloat, c10::kCPU, 3);
  const auto all = baselines(network, ensemble, 2);
  const Tensors outputs = named(all, "vmap").run();
  EXPECT_EQ(outputs[1].sizes().vec(), (Sizes{3, 2, 3}));
  EXPECT_LT(max_relative_error(outputs, named(all, "loop").run()), 1e-5);
}

TEST(Baselines, VmapSaysWhyNotAndRestoresTheFallback) {
  Network network;
  network.name = "no rule";
  network.tensors = {{"x", Role::input, {4, 6}},
                     {"target", Role::input, {4}, at::kLong, Fill::integers, 6.0}};
  network.forward = [](const Tensors& t) -> Tensors { return {at::multi_margin_loss(t[0], t[1])}; };
  const bool before = at::functorch::isVmapFallbackEnabled();
  const auto all = baselines(network, generate(network, 3, at::kFloat, c10::kCPU, 3), 2);
  EXPECT_EQ(at::functorch::isVmapFallbackEnabled(), before);
  const Baseline& vmap = named(all, "vmap");
  EXPECT_FALSE(vmap.call);
  EXPECT_NE(vmap.unavailable.find("multi_margin_loss"), std::string::npos) << vmap.unavailable;
  EXPECT_EQ(vmap.unavailable.find('\n'), std::string::npos);
  EXPECT_TRUE(named(all, "loop").call);
}

TEST(Baselines, ThreadsRunModelsSideBySideWithoutThreadsInside) {
  std::atomic<int> inside{0}, most{0};
  std::atomic<int> nested{0};
  std::atomic<bool> quiet{true};
  Network network = mlp();
  network.forward = [&](const Tensors& t) -> Tensors {
    const int now = ++inside;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    if (at::in_parallel_region()) ++nested;  // then operators use no threads of their own
    if (at::GradMode::is_enabled() && !c10::InferenceMode::is_enabled()) quiet = false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --inside;
    return {at::linear(t[0], t[1], t[2])};
  };
  const Ensemble ensemble = generate(network, 4, at::kFloat, c10::kCPU, 3);
  const auto all = baselines(network, ensemble, 2);
  most = 0;
  named(all, "loop").call();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(nested, 0);
  named(all, "threads").call();
  EXPECT_EQ(most, 2);
  EXPECT_EQ(nested, 4);
  EXPECT_TRUE(quiet);
}

TEST(Baselines, AreTimedWithoutAWordOnStderr) {
  const Network network = mlp();
  std::vector<Contender> contenders;
  for (const Baseline& b : baselines(network, generate(network, 4, at::kFloat, c10::kCPU, 3), 2))
    contenders.push_back({b.name, "baseline", b.call});
  MeasureOptions options;
  options.budget_s = 0.03;
  testing::internal::CaptureStderr();
  const auto timings = measure(contenders, options);
  // Counting a call's memory sees blocks go that it has not seen come.
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  for (const Timing& timing : timings) {
    EXPECT_GT(timing.median_ns, 0) << timing.name;
    EXPECT_GE(timing.peak_bytes, 4 * 4 * 5 * 4) << timing.name;
  }
}

TEST(Baselines, ThreadsHandOnWhatAModelThrows) {
  Network network = mlp();
  std::atomic<bool> broken{false};
  network.forward = [&](const Tensors& t) -> Tensors {
    TORCH_CHECK(!broken || t[2].data_ptr<float>() == nullptr, "a model broke");
    return {at::linear(t[0], t[1], t[2])};
  };
  const auto all = baselines(network, generate(network, 4, at::kFloat, c10::kCPU, 3), 2);
  broken = true;
  EXPECT_THROW(named(all, "threads").call(), c10::Error);
  broken = false;
  EXPECT_NO_THROW(named(all, "threads").call());
}

TEST(Baselines, SomeHaveNothingToSpread) {
  const Network network = mlp();
  const auto one = baselines(network, generate(network, 1, at::kFloat, c10::kCPU, 3), 2);
  EXPECT_EQ(named(one, "threads").unavailable, "one model only");
  EXPECT_TRUE(named(one, "loop").call);
  const auto alone = baselines(network, generate(network, 3, at::kFloat, c10::kCPU, 3), 1);
  EXPECT_EQ(named(alone, "threads").unavailable, "one thread only");
}

TEST(Baselines, NetworksThatDifferentiateInsideRun) {
  Network network = mlp();
  network.forward = [](const Tensors& t) -> Tensors {
    const at::AutoGradMode grad(true);
    const Tensor weight = t[1].detach().requires_grad_();
    at::linear(t[0], weight, t[2]).square().sum().backward();
    return {weight.grad()};
  };
  const Ensemble ensemble = generate(network, 3, at::kFloat, c10::kCPU, 3);
  const Tensors right = expected(network, ensemble);
  const auto all = baselines(network, ensemble, 2);
  for (const char* name : {"loop", "threads"}) {
    named(all, name).call();
    EXPECT_LT(max_relative_error(named(all, name).run(), right), 1e-5) << name;
  }
}

TEST(BaselinesCuda, StreamsAndGraphGiveTheSeparateModelsAnswers) {
  const c10::Device device(c10::kCUDA, 0);
  if (const auto reason = unavailable(device)) GTEST_SKIP() << *reason;
  for (const Network& network : {mlp(), batch_norm()}) {
    const Ensemble ensemble = generate(network, 5, at::kFloat, device, 3);
    const Tensors right = expected(network, ensemble);
    for (const char* name : {"loop", "streams", "graph"}) {
      const auto all = baselines(network, ensemble, 2);
      ASSERT_EQ(named(all, name).unavailable, "") << name;
      for (int i = 0; i < 3; ++i) named(all, name).call();
      synchronize(device);
      EXPECT_LT(max_relative_error(named(all, name).run(), right), 1e-4) << name;
    }
  }
}

TEST(Baselines, OnlyWhatIsWantedIsMade) {
  Network net = mlp();
  int calls = 0;
  net.forward = [&calls, inner = net.forward](const Tensors& t) {
    ++calls;
    return inner(t);
  };
  const Ensemble ensemble = generate(net, 3, at::kFloat, c10::kCPU, 5);
  calls = 0;
  baselines(net, ensemble, 2);
  const int of_all = calls;
  calls = 0;
  const auto loop =
      baselines(net, ensemble, 2, [](const std::string& name) { return name == "loop"; });
  ASSERT_EQ(loop.size(), 1U);
  EXPECT_EQ(loop[0].name, "loop");
  EXPECT_LT(calls, of_all) << "vmap was tried though nobody asked for it";
}

}  // namespace
}  // namespace wide::baselines_test
