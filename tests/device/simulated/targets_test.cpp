// Every target by every strategy, as the engine runs it on a device: right, isolated, in order, and
// by the rules of a device.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "app/sweep/cases.h"
#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/widen/derivative.h"
#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

using Lines = std::vector<std::string>;

class SimulatedTargets : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    install();
    Streams::get().reset(1);
    target_ = &find_target(GetParam());
  }
  void TearDown() override { Streams::get().reset(1); }

  /// At every shape of `ci`.
  void at_each_shape(const std::function<void(const Network&)>& test) const {
    for (const Shape& shape : target_->sweeps.at("ci").shapes) {
      SCOPED_TRACE(shape.text());
      test(target_->network(shape));
    }
  }

  /// What takes most of the time, and nothing new beyond its first strategy.
  static bool is_large(const Network& network) {
    int64_t numbers = 0;
    for (const TensorSpec& t : network.tensors) numbers += c10::multiply_integers(t.sizes);
    return numbers > 1 << 22 && std::getenv("WORKBENCH_TEST_EVERYTHING") == nullptr;
  }

  /// By every strategy in both modes. `expected`: of the separate models, on the CPU in float64.
  void run_all(const Network& network, bool grad) {
    const bool briefly = grad && is_large(network);
    const int64_t n = briefly ? 2 : 3;
    const Ensemble on_cpu = generate(network, n, at::kFloat, c10::kCPU, 11);
    const Ensemble ensemble = generate(network, n, at::kFloat, kDevice, 11);
    const Tensors exact = in_double(record_single(network, on_cpu, grad), on_cpu);
    const Program single = record_single(network, ensemble, grad);
    const double tolerance = target_->tolerance_for(at::kFloat);
    std::optional<Expected> expected;
    int runs = 0;
    Lines strategies = strategy_names(*target_);
    if (briefly) strategies.resize(1);
    for (const std::string& strategy : strategies)
      for (const Mode mode : {Mode::default_, Mode::reduce_overhead}) {
        SCOPED_TRACE(fmt::format("{} {}", strategy, to_string(mode)));
        CompileOptions options;
        options.mode = mode;
        options.threads = 1;
        options.tune = false;
        options.widen = widen_options(*target_, strategy, {});
        std::unique_ptr<CompiledModel> model;
        try {
          model = compile(network, ensemble, options, single);
        } catch (const Unsupported&) {
          continue;
        }
        if (!expected) expected = expect(network, single, ensemble);
        const WideFunction run = as_function(*model, network);
        if (!network.random) {
          const Tensors got = run(ensemble);
          Tensors back;
          for (const Tensor& t : got) back.push_back(t.cpu());
          EXPECT_LE(max_relative_error(back, exact),
                    std::max(tolerance, 4 * expected->eager_max_rel));
        }
        const Correctness c = check(network, single, ensemble, run, tolerance,
                                    /*masks_shared=*/strategy == "shared", &*expected);
        EXPECT_TRUE(c.pass) << c.failure;
        ++runs;
        ASSERT_EQ(Streams::get().violations, Lines{});
      }
    EXPECT_GE(runs, 2);
  }

  void run_phase(const std::string& phase) {
    const at::NoGradGuard no_grad;
    at_each_shape([&](const Network& inner) { run_phase(phase, inner); });
  }

  void run_phase(const std::string& phase, const Network& inner) {
    const Program single =
        record_single(inner, generate(inner, 1, at::kFloat, kDevice, 3), /*grad=*/true);
    std::optional<Network> network;
    try {
      network = phase_network(inner, single, phase, default_optimizer(target_->optimizer).name);
    } catch (const Unsupported&) {
      GTEST_SKIP() << "nothing to differentiate";
    }
    run_all(*network, true);
  }

  const Target* target_ = nullptr;
};

TEST_P(SimulatedTargets, AreRightForward) {
  const at::NoGradGuard no_grad;
  at_each_shape([this](const Network& network) { run_all(network, false); });
}

TEST_P(SimulatedTargets, AreRightBackward) { run_phase("backward"); }

TEST_P(SimulatedTargets, AreRightInAStep) { run_phase("step"); }

Lines names() {
  Lines all;
  for (const Target* target : targets()) all.push_back(target->name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, SimulatedTargets, ::testing::ValuesIn(names()),
                         [](const auto& named) { return named.param; });

}  // namespace
}  // namespace wide::simulated
