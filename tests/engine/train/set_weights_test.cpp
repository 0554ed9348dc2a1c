#include "engine/error.h"
#include "tests/engine/train/subjects.h"

namespace wide {
namespace {

using namespace training;

constexpr int64_t kN = 5, kRows = 3;

std::string refusal(Trainer& trainer, const std::map<std::string, Tensor>& weights) {
  try {
    trainer.set_weights(weights);
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

/// A few steps, after which two models are stopped and slots are no longer in the models' order.
Trainer trained(const Subject& s, double ema) {
  TrainerOptions options;
  options.n = kN;
  options.hyperparameters["lr"] = {0.05};
  options.hyperparameters["ema"] = {ema};
  Trainer trainer(forms(s), {{"x"}}, start(s, kN, at::kFloat), options);
  for (uint64_t t = 0; t < 3; ++t) {
    trainer.step(batch(s, kN, kRows, at::kFloat, 40 + t));
    if (t == 0) trainer.stop(1);
    if (t == 1) trainer.stop(3);
  }
  return trainer;
}

std::map<std::string, Tensor> tensors(const std::map<std::string, StartTensor>& start) {
  std::map<std::string, Tensor> all;
  for (const auto& [name, t] : start) all[name] = t.tensor;
  return all;
}

/// Every model's answer is that of PyTorch's operators with these weights, whatever was trained.
TEST(TrainerSetWeights, EvaluationIsOfTheseWeightsForAllModels) {
  const at::NoGradGuard no_grad;
  for (const Subject& s : {mlp(), batch_norm_net()})
    for (const double ema : {0.0, 0.9}) {
      SCOPED_TRACE(s.name + (ema > 0 ? " averaged" : ""));
      Trainer trainer = trained(s, ema);
      const auto others = start(s, kN, at::kFloat, 77);
      trainer.set_weights(tensors(others));
      EXPECT_EQ(trainer.running(), (std::vector<int64_t>{0, 1, 2, 3, 4}));
      expect_same_bits(trainer.weights(), tensors(others));
      const Batch b = batch(s, kN, kRows, at::kFloat, 90);
      const Tensor answers = trainer.evaluate(b).at(0);
      ASSERT_EQ(answers.size(0), kN);
      for (int64_t m = 0; m < kN; ++m) {
        const Tensor wanted = s.forward(b.inputs[0].values[m], own_weights(s, others, m), false);
        EXPECT_LT((answers[m] - wanted).abs().max().item<double>(), 1e-5) << m;
      }
    }
}

TEST(TrainerModels, ThoseThatAreStoppedOrDoNotExistAreRefused) {
  const Subject s = mlp();
  Trainer trainer = trained(s, 0);
  const auto refused = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  for (const int64_t m : {int64_t{-1}, kN}) {
    const std::string wanted =
        fmt::format("[train] model: got {}, expected 0 to 4; try one of running()", m);
    EXPECT_EQ(refused([&] { trainer.set_hyperparameter("lr", m, 0.1); }), wanted);
    EXPECT_EQ(refused([&] { trainer.hyperparameter("lr", m); }), wanted);
    EXPECT_EQ(refused([&] { trainer.stop(m); }), wanted);
  }
  for (int64_t m = 0; m < kN; ++m) trainer.stop(m);
  const Batch b = batch(s, kN, kRows, at::kFloat, 90);
  for (const std::function<void()>& call : {std::function<void()>([&] { trainer.step(b); }),
                                            std::function<void()>([&] { trainer.prepare(b); }),
                                            std::function<void()>([&] { trainer.evaluate(b); }),
                                            std::function<void()>([&] { trainer.check(b, 2); })})
    EXPECT_EQ(refused(call),
              "[train] models: got none that runs, expected one at least; try before all are "
              "stopped");
}

TEST(TrainerSetWeights, RefusesOtherNamesAndSizesAndChangesNothing) {
  const Subject s = mlp();
  Trainer trainer = trained(s, 0);
  const auto before = trainer.weights();
  const auto given = tensors(start(s, kN, at::kFloat, 77));
  auto missing = given, more = given, small = given;
  missing.erase("0.bias");
  more["2.weight"] = at::zeros({kN, 1});
  small["1.bias"] = at::zeros({kN, 4});
  EXPECT_EQ(refusal(trainer, missing),
            "[train] weights: got no 0.bias, expected all parameters and buffers; try those of "
            "weights()");
  EXPECT_EQ(refusal(trainer, more),
            "[train] tensor: got 2.weight, expected a parameter or buffer of the network; try "
            "weights()");
  EXPECT_EQ(refusal(trainer, small).find("[train] weights of 1.bias: got "), 0u);
  expect_same_bits(trainer.weights(), before);
  EXPECT_EQ(trainer.running(), (std::vector<int64_t>{0, 2, 4}));
}

}  // namespace
}  // namespace wide
