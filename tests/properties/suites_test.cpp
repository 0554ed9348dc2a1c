// The networks of the suites compute what PyTorch computes, also where they learn: compiled, from
// the same weights.
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/compile.h"
#include "engine/widen/derivative.h"
#include "tests/properties/harness.h"
#include "tests/scratch.h"

namespace wide::testing::suites_test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kModels = 2, kSteps = 3;
const Shape kShape{{"B", 2}, {"T", 9}, {"D", 12}, {"F", 20}, {"L", 2}, {"h", 3}, {"V", 17}};

/// One model's tensors for the script, and what it says of them.
double loss_by_pytorch(const char* python, const char* source, const Network& network,
                       const Tensors& tensors) {
  const Scratch scratch;
  nlohmann::json list = nlohmann::json::array();
  double rate = 0;
  for (size_t k = 0; k < tensors.size(); ++k) {
    const TensorSpec& spec = network.tensors[k];
    const Tensor t = tensors[k].contiguous();
    if (spec.name == "learning_rate") rate = t.item<double>();
    list.push_back({spec.name, spec.sizes, !t.is_floating_point()});
    std::ofstream(scratch.path() / std::to_string(k), std::ios::binary)
        .write(static_cast<const char*>(t.const_data_ptr()),
               static_cast<std::streamsize>(t.nbytes()));
  }
  std::ofstream(scratch.path() / "case")
      << nlohmann::json{{"tensors", list}, {"heads", kShape["h"]}, {"blocks", kShape["L"]},
                        {"rate", rate},    {"steps", kSteps},      {"step", 100000}};
  const std::string said = (scratch.path() / "said").string();
  const std::string command = fmt::format("{} {}/tests/properties/language_model.py {} > {}",
                                          python, source, scratch.path().string(), said);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  double loss = 0;
  std::ifstream(said) >> loss;
  return loss;
}

TEST(Suites, TheTransformersLossAfterThreeStepsOfAdamWIsPyTorchs) {
  const char* python = std::getenv("WORKBENCH_TEST_PYTHON");
  const char* source = std::getenv("WORKBENCH_SOURCE");
  if (python == nullptr || source == nullptr) GTEST_SKIP() << "no Python to ask";
  const at::NoGradGuard guard;
  const Target& target = find_target("language_model");
  const Network forward = target.network(kShape);
  const Program plain = [&] {
    const at::AutoGradMode grad(true);
    return record_one(forward, generate(forward, 1, at::kFloat, at::kCPU, 5).model(0));
  }();
  const Network step =
      phase_network(forward, plain, "step", default_optimizer(target.optimizer).name);
  Ensemble ensemble = generate(step, kModels, at::kFloat, at::kCPU, 5);
  for (size_t k = 0; k < step.tensors.size(); ++k) {
    const std::string& name = step.tensors[k].name;
    if (name == "cotangent.0") ensemble.tensors[k].fill_(1);  // of the loss itself
    if (name.rfind("exp_avg.", 0) == 0) ensemble.tensors[k].mul_(0.1);
    if (name.rfind("exp_avg_sq.", 0) == 0) ensemble.tensors[k].mul_(1e-4);  // steps that count
  }
  const auto model = compile(step, ensemble);
  Tensors state = ensemble.tensors;
  for (int64_t i = 0; i < kSteps; ++i) {
    Tensors inputs;
    for (const size_t k : step.indices(true)) inputs.push_back(state[k]);
    const Tensors results = model->run(inputs);
    for (const auto& [output, tensor] : step.derivative->feedback())
      state[tensor] = results[output].clone();
  }
  const Ensemble after{kModels,
                       {state.begin(), state.begin() + std::ssize(forward.tensors)},
                       std::vector<bool>(forward.tensors.size(), false)};
  for (int64_t i = 0; i < kModels; ++i) {
    const double got = forward.forward(after.model(i))[0].item<double>();
    const double before = forward.forward(ensemble.model(i))[0].item<double>();
    const double expected = loss_by_pytorch(python, source, step, ensemble.model(i));
    EXPECT_NEAR(got, expected, 1e-4 * std::abs(expected)) << "model " << i;
    EXPECT_GT(std::abs(got - before), 1e-2) << "the steps change nothing";
  }
}

/// Gradients of the attention row as autograd takes them of the form that users write.
TEST(Suites, GradientsOfTheAttentionRowAreAutogradsOwn) {
  const at::NoGradGuard guard;
  for (const int64_t causal : {0, 1}) {
    const Network forward = find_target("naive_attention")
                                .network({{"B", 3}, {"T", 150}, {"D", 16}, {"causal", causal}});
    const Program plain = [&] {
      const at::AutoGradMode grad(true);
      return record_one(forward, generate(forward, 1, at::kFloat, at::kCPU, 5).model(0));
    }();
    const Network backward = phase_network(forward, plain, "backward");
    const Ensemble ensemble = generate(backward, kModels, at::kFloat, at::kCPU, 7);
    Tensors expected;
    for (int64_t i = 0; i < kModels; ++i) {
      Tensors own = ensemble.model(i);
      for (Tensor& t : own) t = t.to(at::kDouble);
      const Tensors made = backward.forward(own);
      for (size_t k = 0; k < made.size(); ++k) {
        if (i == 0)
          expected.push_back(at::empty(wide_sizes(kModels, made[k].sizes()), at::kDouble));
        expected[k][i].copy_(made[k]);
      }
    }
    const auto model = compile(backward, ensemble);
    Tensors inputs;
    for (const size_t k : backward.indices(true)) inputs.push_back(ensemble.tensors[k]);
    EXPECT_LT(relative_error(model->run(inputs), expected), 1e-4) << "causal " << causal;
    bool claimed = false;
    for (const CoverageItem& item : model->coverage().items)
      claimed |= item.primitive == "attention" && item.way == Way::strategy;
    EXPECT_TRUE(claimed);
  }
}

}  // namespace
}  // namespace wide::testing::suites_test
