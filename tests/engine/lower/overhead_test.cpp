#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

#include "engine/compile.h"
#include "engine/widen/target.h"

namespace wide::overhead_test {
namespace {

/// The least of many rounds: what the work costs when nothing disturbs it.
double least_ns(int rounds, const std::function<void()>& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const auto stop = std::chrono::steady_clock::now();
    least = std::min(least, std::chrono::duration<double, std::nano>(stop - start).count());
  }
  return least;
}

/// Without oneDNN, as recordings run: the same kernels on both sides of the comparison.
struct OneDnnOff {
  bool before = at::globalContext().userEnabledMkldnn();
  OneDnnOff() { at::globalContext().setUserEnabledMkldnn(false); }
  ~OneDnnOff() { at::globalContext().setUserEnabledMkldnn(before); }
};

TEST(TimingOverhead, AStepOfTheInterpreterCostsAtMostAMicrosecondOverItsOperator) {
  at::NoGradGuard no_grad;
  constexpr int kSteps = 400;
  const Tensor x = at::randn({8}), y = at::randn({8});
  const Program program =
      record({{"x", Role::input, x}, {"y", Role::input, y}}, [&](const Tensors& t) {
        Tensor z = t[0];
        for (int i = 0; i < kSteps; ++i) z = at::add(z, t[1]);
        return Tensors{z};
      });
  ASSERT_EQ(program.nodes.size(), static_cast<size_t>(kSteps));
  const double interpreted = least_ns(60, [&] { interpret(program, {x, y}); });
  const double direct = least_ns(60, [&] {
    Tensor z = x;
    for (int i = 0; i < kSteps; ++i) z = at::add(z, y);
  });
  const double overhead = (interpreted - direct) / kSteps;
  std::printf("interpreter: %.0f ns over its operator per step (operator alone %.0f ns)\n",
              overhead, direct / kSteps);
  EXPECT_LE(overhead, 1000);
}

TEST(TimingOverhead, RecordingCostsAtMostOneAndAHalfRuns) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer slows the engine, not LibTorch";
#endif
  at::NoGradGuard no_grad;
  const OneDnnOff off;
  for (const char* name : {"resnet18", "resblock", "mlp_block"}) {
    const Target& target = find_target(name);
    const Network net = target.network(target.sweeps.at("quick").shapes.at(0));
    double least = std::numeric_limits<double>::infinity(), run_ns = 0;
    // Where tensors happen to lie changes either by a third, so that each attempt has new ones.
    for (int attempt = 0; attempt < 4; ++attempt) {
      const Ensemble ensemble = generate(net, 1, at::kFloat, at::kCPU, 1);
      const Tensors one = ensemble.model(0);
      double run = 1e18, recorded = 1e18;
      for (int turn = 0; turn < 5; ++turn) {  // in turns, so that both meet the same machine
        run = std::min(run, least_ns(5, [&] { net.forward(one); }));
        recorded = std::min(recorded, least_ns(5, [&] { record_single(net, ensemble); }));
      }
      if (recorded / run < least) run_ns = run;
      least = std::min(least, recorded / run);
    }
    std::printf("recording %s: %.2f times one run (%.2f ms)\n", name, least, run_ns / 1e6);
    EXPECT_LE(least, 1.5) << name;
  }
}

}  // namespace
}  // namespace wide::overhead_test
