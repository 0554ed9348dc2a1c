#include <ATen/ATen.h>
#include <ATen/functorch/BatchedFallback.h>
#include <gtest/gtest.h>

#include <thread>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/lower/tune/tuning.h"
#include "engine/record/process_switch.h"

namespace wide::threads_stress_test {
namespace {

bool one_dnn() { return at::globalContext().userEnabledMkldnn(); }

TEST(ProcessSwitch, IsPutBackByTheLastWhoeverThatIs) {
  ASSERT_TRUE(one_dnn());
  auto first = std::make_unique<OneDnnOff>(), second = std::make_unique<OneDnnOff>();
  EXPECT_FALSE(one_dnn());
  first.reset();  // not the order of a stack: two threads
  EXPECT_FALSE(one_dnn());
  second.reset();
  EXPECT_TRUE(one_dnn());

  ASSERT_TRUE(at::functorch::isVmapFallbackEnabled());
  auto one = std::make_unique<VmapFallbackOff>(), other = std::make_unique<VmapFallbackOff>();
  one.reset();
  EXPECT_FALSE(at::functorch::isVmapFallbackEnabled());
  other.reset();
  EXPECT_TRUE(at::functorch::isVmapFallbackEnabled());
}

std::vector<Network> networks() {
  std::vector<Network> all(4);
  all[0].tensors = {{"x", Role::input, {5, 16}},
                    {"a", Role::parameter, {24, 16}, at::kFloat, Fill::normal, 0.3},
                    {"b", Role::parameter, {7, 24}, at::kFloat, Fill::normal, 0.3}};
  all[0].forward = [](const Tensors& t) {
    return Tensors{at::linear(at::gelu(at::linear(t[0], t[1])), t[2])};
  };
  all[1].tensors = {{"x", Role::input, {2, 3, 9, 11}},
                    {"w", Role::parameter, {5, 3, 3, 3}, at::kFloat, Fill::normal, 0.2},
                    {"b", Role::parameter, {5}}};
  all[1].forward = [](const Tensors& t) {
    return Tensors{at::relu(at::conv2d(t[0], t[1], t[2], 1, 1)).mean({2, 3})};
  };
  all[2].tensors = {{"x", Role::input, {6, 2, 5}},
                    {"h", Role::input, {1, 2, 4}},
                    {"c", Role::input, {1, 2, 4}},
                    {"wi", Role::parameter, {16, 5}, at::kFloat, Fill::normal, 0.3},
                    {"wh", Role::parameter, {16, 4}, at::kFloat, Fill::normal, 0.3},
                    {"bi", Role::parameter, {16}},
                    {"bh", Role::parameter, {16}}};
  all[2].forward = [](const Tensors& t) {
    const auto [y, h, c] =
        at::lstm(t[0], {t[1], t[2]}, {t[3], t[4], t[5], t[6]}, true, 1, 0.0, false, false, false);
    return Tensors{y, h, c};
  };
  all[3].tensors = {
      {"x", Role::input, {3, 10}}, {"w", Role::parameter, {10}}, {"b", Role::parameter, {10}}};
  all[3].forward = [](const Tensors& t) {
    const Tensor y = at::layer_norm(t[0], {10}, t[1], t[2]);
    return Tensors{at::softmax(y, -1), at::histc(y, 7), y.as_strided({4}, {7}, 1)};
  };
  for (size_t i = 0; i < all.size(); ++i) all[i].name = "network " + std::to_string(i);
  return all;
}

/// N separate calls in double, by ATen alone.
Tensors separate(const Network& net, const Ensemble& ensemble) {
  std::vector<Tensors> each;
  for (int64_t i = 0; i < ensemble.n; ++i) {
    Tensors own;
    for (const Tensor& t : ensemble.model(i)) own.push_back(t.to(at::kDouble));
    each.push_back(net.forward(own));
  }
  Tensors out;
  for (size_t k = 0; k < each[0].size(); ++k) {
    Tensors parts;
    for (const Tensors& one : each) parts.push_back(one[k]);
    out.push_back(at::stack(parts));
  }
  return out;
}

/// All networks, each thread beginning with another one, compiled anew in every round.
void compile_and_run(int thread, int rounds, std::vector<std::string>& wrong) {
  at::NoGradGuard no_grad;
  const std::vector<Network> all = networks();
  for (int round = 0; round < rounds; ++round) {
    const Network& net = all[static_cast<size_t>(thread + round) % all.size()];
    const int64_t n = 1 + (thread + round) % 4;
    const Ensemble ensemble =
        generate(net, n, at::kFloat, at::kCPU, static_cast<uint64_t>(100 * thread + round));
    const Tensors expected = separate(net, ensemble);
    CompileOptions options;
    options.threads = 1 + thread % 2;
    options.tune = round % 2 == 0;
    try {
      auto model = compile(net, ensemble, options);
      Tensors inputs;
      for (const size_t at : net.indices(true)) inputs.push_back(ensemble.tensors[at]);
      for (int call = 0; call < 3; ++call) {
        const double error = max_relative_error(model->run(inputs), expected);
        if (!(error < 1e-4)) wrong.push_back(net.name + ": " + std::to_string(error));
      }
    } catch (const std::exception& e) {
      wrong.push_back(net.name + ": " + e.what());
    }
    if (thread == 0) set_tuning_table(nullptr);
  }
}

TEST(ThreadStressSerial, EightThreadsCompileAndRunEachItsOwn) {
  constexpr int kThreads = 8, kRounds = 30;
  std::vector<std::vector<std::string>> wrong(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back(
        [&wrong, t] { compile_and_run(t, kRounds, wrong[static_cast<size_t>(t)]); });
  for (std::thread& t : threads) t.join();
  for (const auto& list : wrong)
    for (const std::string& text : list) ADD_FAILURE() << text;
  EXPECT_TRUE(one_dnn());
  EXPECT_TRUE(at::functorch::isVmapFallbackEnabled());
  set_tuning_table(nullptr);
}

}  // namespace
}  // namespace wide::threads_stress_test
