#include "engine/train/trainer.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <cstring>

#include "engine/error.h"
#include "tests/engine/train/subjects.h"

namespace wide::trainer_test {
namespace {

using namespace training;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

/// With dropout on numbers, on channels, and in attention.
Subject dropping() {
  return {"dropping",
          {3, 6, 6},
          {weight("conv.weight", {4, 3, 3, 3}), weight("conv.bias", {4}),
           weight("qkv.weight", {12, 4}), weight("fc.weight", {5, 4}), weight("fc.bias", {5})},
          [](const Tensor& x, const Tensors& w, bool train) {
            Tensor h = at::feature_dropout(at::relu(at::conv2d(x, w[0], w[1])), 0.2, train);
            h = at::avg_pool2d(h, 2).flatten(2).transpose(1, 2);
            const auto qkv = at::linear(h, w[2]).chunk(3, -1);
            h = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, train ? 0.3 : 0.0);
            return at::linear(at::dropout(h.mean(1), 0.4, train), w[3], w[4]);
          }};
}

TrainerOptions exact(int64_t n) {
  TrainerOptions o;
  o.n = n;
  o.exact = true;
  return o;
}

/// A run of `models`, each with the weights, data, seed and learning rate that its number gives, in
/// any order and company; some are stopped after a step. What model `of` is then.
std::map<std::string, Tensor> run(const Subject& s, const std::vector<int64_t>& models, int64_t of,
                                  int threads, const std::map<int64_t, int64_t>& stop_after = {},
                                  at::ScalarType dtype = at::kFloat) {
  constexpr int64_t kAll = 8, kSteps = 6;
  const auto everyone = start(s, kAll, dtype);
  const auto n = static_cast<int64_t>(models.size());
  const Tensor index = at::tensor(models, at::kLong);
  std::map<std::string, StartTensor> own;
  for (const auto& [name, t] : everyone) own[name] = {t.tensor.index_select(0, index), false};
  TrainerOptions o = exact(n);
  o.threads = threads;
  o.seeds.clear();
  for (const int64_t m : models) {
    o.seeds.push_back(static_cast<uint64_t>(m) + 7);
    o.hyperparameters["lr"].push_back(1e-2 / double(m + 1));
    o.hyperparameters["clip"].push_back(m % 2 == 0 ? 0.5 : 0);
  }
  Trainer trainer(forms(s), {{"x"}}, own, o);
  int64_t place = 0;
  for (int64_t k = 0; k < n; ++k)
    if (models[static_cast<size_t>(k)] == of) place = k;
  for (int64_t t = 0; t < kSteps; ++t) {
    Batch all = batch(s, kAll, 7, dtype, 60 + uint64_t(t));
    all.inputs[0].values = all.inputs[0].values.index_select(0, index);
    all.target.values = all.target.values.index_select(0, index);
    trainer.step(all);
    for (int64_t k = 0; k < n; ++k)
      if (const auto at = stop_after.find(models[static_cast<size_t>(k)]);
          at != stop_after.end() && at->second == t)
        trainer.stop(k);
  }
  return trainer.weights(place);
}

TEST(TrainerExact, BitsHangNeitherOnNeighboursNorOnThreads) {
  for (const Subject& s : {dropping(), batch_norm_net(), mlp()}) {
    SCOPED_TRACE(s.name);
    const auto alone = run(s, {3}, 3, 1);
    expect_same_bits(alone, run(s, {0, 1, 2, 3, 4, 5, 6, 7}, 3, 1));
    expect_same_bits(alone, run(s, {7, 3, 1, 0, 2}, 3, 2));
    expect_same_bits(alone, run(s, {5, 4, 3, 6}, 3, 2, {{5, 1}, {6, 3}}));
    expect_same_bits(alone, run(s, {5, 4, 3, 6}, 3, 3, {{4, 0}}));
  }
}

TEST(TrainerExact, ASharedBatchGivesTheBitsOfBatchesOfTheirOwn) {
  const Subject s = mlp();
  constexpr int64_t kN = 3, kB = 61;
  TrainerOptions o = exact(kN);
  o.loss.weight = at::tensor({0.3, 1.7, 0.9, 0.123, 2.1}, at::kFloat);
  Trainer shared(forms(s), {{"x"}}, start(s, kN, at::kFloat), o);
  Trainer own(forms(s), {{"x"}}, start(s, kN, at::kFloat), o);
  for (int64_t t = 0; t < 6; ++t) {
    const Batch one = batch(s, 1, kB, at::kFloat, 40 + uint64_t(t));
    const Tensor w = random({kB}, at::kFloat, 50 + uint64_t(t)).abs() + 0.1;
    const Tensor &x = one.inputs[0].values, &y = one.target.values;
    shared.step({{{x[0], true}}, {y[0], true}, {w, true}});
    own.step({{{expanded(kN, x[0])}}, {expanded(kN, y[0])}, {expanded(kN, w)}});
  }
  expect_same_bits(shared.weights(), own.weights());
}

TEST(TrainerExact, WhatIsStoppedStaysAsItWas) {
  const Subject s = mlp();
  const auto three = run(s, {0, 3, 5}, 3, 2, {{3, 2}});
  Trainer trainer(forms(s), {{"x"}}, start(s, 8, at::kFloat), exact(8));
  trainer.step(batch(s, 8, 5, at::kFloat, 1));
  trainer.stop(3);
  trainer.stop(0);
  EXPECT_EQ(trainer.running(), (std::vector<int64_t>{1, 2, 4, 5, 6, 7}));
  const auto before = trainer.weights();
  const StepResult result = trainer.step(batch(s, 8, 5, at::kFloat, 2));
  const auto after = trainer.weights();
  for (int64_t i = 0; i < 8; ++i) {
    const bool stopped = i == 0 || i == 3;
    EXPECT_EQ(std::isnan(result.losses[i].item<double>()), stopped);
    for (const auto& [name, t] : before)
      EXPECT_EQ(t[i].equal(after.at(name)[i]), stopped) << name << " of " << i;
  }
  const Tensors outputs = trainer.evaluate(batch(s, 8, 5, at::kFloat, 3));
  EXPECT_EQ(outputs[0].sizes(), at::IntArrayRef({6, 5, 5}));
}

TEST(Trainer, AModelThatDivergesDisturbsNobody) {
  for (const bool is_exact : {false, true}) {
    const Subject s = batch_norm_net();
    const auto run_with = [&](double lr) {
      TrainerOptions o;
      o.n = 4;
      o.exact = is_exact;
      o.tune = false;
      o.threads = 2;
      o.optimizer = "sgd";
      o.hyperparameters["lr"] = {1e-2, 2e-2, lr, 3e-2};
      Trainer trainer(forms(s), {{"x"}}, start(s, 4, at::kFloat), o);
      int64_t suppressed = 0;
      std::map<std::string, Tensor> last_finite;
      for (int64_t t = 0; t < 8; ++t) {
        const auto before = trainer.weights(2);
        const StepResult r = trainer.step(batch(s, 4, 7, at::kFloat, 70 + uint64_t(t)));
        for (const int64_t i : {0, 1, 3}) EXPECT_FALSE(r.suppressed[i].item<bool>());
        if (!r.suppressed[2].item<bool>()) continue;
        ++suppressed;
        const auto after = trainer.weights(2);
        for (const auto& [name, w] : after) {
          EXPECT_TRUE(w.equal(before.at(name))) << name;  // nothing of it is written
          EXPECT_TRUE(w.isfinite().all().item<bool>()) << name;
        }
      }
      EXPECT_EQ(suppressed > 0, lr > 1);
      return trainer.weights();
    };
    const auto quiet = run_with(1e-2), wild = run_with(1e30);
    for (const auto& [name, t] : quiet)
      for (const int64_t i : {0, 1, 3}) EXPECT_TRUE(t[i].equal(wild.at(name)[i])) << name;
  }
}

TEST(Trainer, AGradientThatIsNotFiniteWritesNothing) {
  // The root's slope at 0 is infinite, its value is not.
  const Subject s{"root", {4}, {weight("w", {4})}, [](const Tensor& x, const Tensors& w, bool) {
                    return (x * w[0]).abs().sum().sqrt();
                  }};
  TrainerOptions o;
  o.n = 3;
  o.loss.name = "output";
  Trainer trainer(forms(s), {{"x"}}, start(s, 3, at::kFloat), o);
  Batch b{.inputs = {{random({3, 2, 4}, at::kFloat, 1)}}};
  b.inputs[0].values.select(0, 1).zero_();
  const Tensor before = trainer.weights().at("w");
  const StepResult r = trainer.step(b);
  const Tensor after = trainer.weights().at("w");
  EXPECT_EQ(r.losses[1].item<double>(), 0);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(r.suppressed[i].item<bool>(), i == 1);
    EXPECT_EQ(before[i].equal(after[i]), i == 1);
  }
}

TEST(Trainer, BuffersAreFedBackAsSeparateModelsKeepTheirs) {
  const Subject s = batch_norm_net();
  constexpr int64_t kN = 3;
  const auto begin = start(s, kN, at::kDouble);
  TrainerOptions o;
  o.n = kN;
  o.optimizer = "sgd";
  o.hyperparameters["lr"] = {0};
  Trainer trainer(forms(s), {{"x"}}, begin, o);
  std::vector<Tensors> own;
  for (int64_t i = 0; i < kN; ++i) own.push_back(own_weights(s, begin, i));
  Batch b;
  for (int64_t t = 0; t < 3; ++t) {
    b = batch(s, kN, 6, at::kDouble, 80 + uint64_t(t));
    trainer.step(b);
    for (int64_t i = 0; i < kN; ++i) s.forward(b.inputs[0].values[i], own[size_t(i)], true);
  }
  const auto got = trainer.weights();
  const Tensor y = trainer.evaluate(b)[0];
  for (int64_t i = 0; i < kN; ++i) {
    for (size_t k = 5; k < 8; ++k)
      EXPECT_TRUE(at::allclose(got.at(s.tensors[k].name)[i], own[size_t(i)][k], 1e-12, 1e-12));
    EXPECT_TRUE(
        at::allclose(y[i], s.forward(b.inputs[0].values[i], own[size_t(i)], false), 1e-9, 1e-12));
  }
}

TEST(Trainer, NothingIsRecordedAgain) {
  const Subject s = mlp();
  TrainerOptions o;
  o.n = 5;
  o.threads = 2;
  o.schedule = parse_schedule("cosine:0.1", 10, 300);
  Trainer trainer(forms(s), {{"x"}}, start(s, 5, at::kFloat), o);
  const Batch whole = batch(s, 5, 8, at::kFloat, 1), ragged = batch(s, 5, 3, at::kFloat, 2);
  trainer.step(whole);
  trainer.step(ragged);
  trainer.evaluate(whole);
  const int64_t recorded = trainer.recordings();
  for (int64_t t = 0; t < 300; ++t) {
    trainer.step(t % 7 == 6 ? ragged : whole);
    trainer.set_hyperparameter("lr", t % 5, 1e-3 * double(t % 11 + 1));
    if (t % 50 == 0) trainer.evaluate(whole);
  }
  EXPECT_EQ(trainer.recordings(), recorded);
  EXPECT_EQ(trainer.steps(), 302);
}

TEST(Trainer, GoesOnFromItsStateWithTheSameBits) {
  for (const bool is_exact : {false, true}) {
    const Subject s = dropping();
    TrainerOptions o;
    o.n = 5;
    o.exact = is_exact;
    o.threads = 2;
    o.optimizer = "adam";
    o.hyperparameters["ema"] = {0.9};
    o.schedule = parse_schedule("linear", 0, 20);
    const auto begin = start(s, 5, at::kFloat);
    const auto data = [&](int64_t t) { return batch(s, 5, 6, at::kFloat, 90 + uint64_t(t)); };
    Trainer whole(forms(s), {{"x"}}, begin, o);
    for (int64_t t = 0; t < 4; ++t) {
      whole.step(data(t));
      if (t == 1) whole.stop(2);
      if (t == 2) whole.set_hyperparameter("lr", 1, 5e-3);
    }
    const TrainerState state = whole.state();
    Trainer resumed(forms(s), {{"x"}}, start(s, 5, at::kFloat, 99), o);
    resumed.load_state(state);
    EXPECT_EQ(resumed.steps(), 4);
    EXPECT_EQ(resumed.running(), whole.running());
    for (int64_t t = 4; t < 7; ++t) {
      const StepResult a = whole.step(data(t)), b = resumed.step(data(t));
      EXPECT_TRUE(at::allclose(a.losses, b.losses, 0, 0, /*equal_nan=*/true));
    }
    expect_same_bits(whole.state().tensors, resumed.state().tensors);
    const Tensor x = whole.evaluate(data(9))[0], y = resumed.evaluate(data(9))[0];
    // Each trainer tunes its own evaluation, whose strategies are no part of the state.
    EXPECT_TRUE(is_exact ? x.equal(y) : at::allclose(x, y, 1e-5, 1e-6));
    TrainerState other = state;
    other.tensors.erase("steps");
    EXPECT_EQ(refusal([&] { resumed.load_state(other); }),
              "[train] state: got no steps, expected all that this trainer has; try that of the "
              "same run");
  }
}

/// Averages and momentum buffers stay in the state after `ema` and `momentum` are set back to 0.
TEST(Trainer, GoesOnFromAStateWhoseMomentsAreNoLongerUsed) {
  const Subject s = mlp();
  TrainerOptions o = exact(3);
  o.optimizer = "sgd";
  const auto begin = start(s, 3, at::kFloat);
  const auto data = [&](int64_t t) { return batch(s, 3, 6, at::kFloat, 90 + uint64_t(t)); };
  Trainer whole(forms(s), {{"x"}}, begin, o);
  for (int64_t t = 0; t < 6; ++t) {
    for (const char* name : {"ema", "momentum"})
      if (t % 2 == 0) whole.set_hyperparameter(name, 1, t == 2 ? 0.5 : 0);
    whole.step(data(t));
  }
  const TrainerState state = whole.state();
  ASSERT_TRUE(state.tensors.contains("ema.0.bias"));
  ASSERT_TRUE(state.tensors.contains("state.0.bias.momentum_buffer"));
  Trainer resumed(forms(s), {{"x"}}, start(s, 3, at::kFloat, 99), o);
  resumed.load_state(state);
  expect_same_bits(state.tensors, resumed.state().tensors);
  for (int64_t t = 6; t < 9; ++t) {
    if (t == 7) whole.set_hyperparameter("momentum", 1, 0.9);
    if (t == 7) resumed.set_hyperparameter("momentum", 1, 0.9);
    whole.step(data(t));
    resumed.step(data(t));
  }
  expect_same_bits(whole.state().tensors, resumed.state().tensors);
  expect_same_bits(whole.weights(), resumed.weights());
}

TEST(Trainer, CopiesOneModelIntoAnother) {
  const Subject s = mlp();
  TrainerOptions o = exact(3);
  o.hyperparameters["lr"] = {1e-2, 1e-2, 1e-2};
  Trainer trainer(forms(s), {{"x"}}, start(s, 3, at::kFloat), o);
  Batch b = batch(s, 3, 6, at::kFloat, 4);
  trainer.step(b);
  trainer.step(b);
  trainer.copy(2, 0);
  b.inputs[0].values.select(0, 0).copy_(b.inputs[0].values.select(0, 2));
  b.target.values.select(0, 0).copy_(b.target.values.select(0, 2));
  trainer.step(b);
  const auto w = trainer.weights();
  for (const auto& [name, t] : w) {
    EXPECT_TRUE(t[0].equal(t[2])) << name;  // moments and step counts too, or they would part
    EXPECT_FALSE(t[0].equal(t[1])) << name;
  }
}

TEST(Trainer, AveragedWeightsAreThoseOfEvaluation) {
  const Subject s = mlp();
  TrainerOptions o;
  o.n = 2;
  o.optimizer = "sgd";
  o.hyperparameters = {{"lr", {0.1}}, {"ema", {0.75, 0}}};
  const auto begin = start(s, 2, at::kDouble);
  Trainer trainer(forms(s), {{"x"}}, begin, o);
  std::map<std::string, Tensor> average;
  for (const auto& [name, t] : begin) average[name] = t.tensor.clone();
  for (int64_t t = 0; t < 5; ++t) {
    trainer.step(batch(s, 2, 6, at::kDouble, uint64_t(t)));
    for (const auto& [name, p] : trainer.state().tensors)
      if (name.rfind("weight.", 0) == 0) {
        Tensor& a = average.at(name.substr(7));
        a = 0.75 * a + 0.25 * p;
      }
  }
  const auto raw = trainer.state().tensors;
  for (const auto& [name, w] : trainer.weights()) {
    EXPECT_TRUE(at::allclose(w[0], average.at(name)[0], 1e-12, 1e-14)) << name;
    EXPECT_TRUE(w[1].equal(raw.at("weight." + name)[1])) << name;
  }
  const Batch b = batch(s, 2, 4, at::kDouble, 9);
  const Tensor y = trainer.evaluate(b)[0];
  for (int64_t i = 0; i < 2; ++i) {
    Tensors own;
    for (const TensorSpec& spec : s.tensors) own.push_back(trainer.weights(i).at(spec.name));
    EXPECT_TRUE(at::allclose(y[i], s.forward(b.inputs[0].values[i], own, false), 1e-9, 1e-12));
  }
}

TEST(Trainer, RowsAreTakenConvertedAndPreparedByEachModel) {
  const Subject s = mlp();
  constexpr int64_t kN = 3, kRows = 20, kB = 6;
  const auto begin = start(s, kN, at::kDouble);
  TrainerOptions o;
  o.n = kN;
  o.threads = 2;
  const Tensor pixels = classes({kRows, 6}, 256, 5).to(at::kByte);
  const Tensor labels = classes({kRows}, 5, 6).to(at::kInt);
  const Tensor order = classes({kN, kB}, kRows, 7);
  const auto normalise = [](int64_t model, const Tensor& x) {
    return (x.to(at::kDouble) - 100) / (50 + double(model));
  };
  Batch by_rows;
  by_rows.inputs = {{pixels, true, order, normalise}};
  by_rows.target = {labels, true, order, {}};
  Batch by_hand;
  Tensors x, y;
  for (int64_t i = 0; i < kN; ++i) {
    x.push_back((pixels.index_select(0, order[i]).to(at::kDouble) - 100) / (50 + double(i)));
    y.push_back(labels.index_select(0, order[i]).to(at::kLong));
  }
  by_hand.inputs = {{at::stack(x)}};
  by_hand.target = {at::stack(y)};
  Trainer trainer(forms(s), {{"x"}}, begin, o);
  const auto a = trainer.gradients(by_rows), b = trainer.gradients(by_hand);
  for (const auto& [name, g] : a) EXPECT_TRUE(at::allclose(g, b.at(name), 1e-12, 1e-14)) << name;
  // One batch for all models.
  Batch shared, repeated;
  shared.inputs = {{pixels, true, order[0], [&](int64_t m, const Tensor& t) {
                      EXPECT_EQ(m, -1);
                      return t.to(at::kDouble) / 100;
                    }}};
  shared.target = {labels, true, order[0], {}};
  const Tensor one = pixels.index_select(0, order[0]).to(at::kDouble) / 100;
  repeated.inputs = {{expanded(kN, one)}};
  repeated.target = {expanded(kN, labels.index_select(0, order[0]).to(at::kLong))};
  const auto c = trainer.gradients(shared), d = trainer.gradients(repeated);
  for (const auto& [name, g] : c) EXPECT_TRUE(at::allclose(g, d.at(name), 1e-12, 1e-14)) << name;
  by_rows.inputs[0].rows = order + kRows;
  EXPECT_NE(refusal([&] { trainer.step(by_rows); }).find("[train] rows of x: got "),
            std::string::npos);
}

/// One frozen base for all models, adapters of their own.
Subject adapted() {
  return {
      "adapted",
      {6},
      {weight("base", {16, 6}), weight("a", {2, 6}), weight("b", {16, 2}), weight("head", {5, 16})},
      [](const Tensor& x, const Tensors& w, bool) {
        const Tensor h = at::linear(x, w[0]) + at::linear(at::linear(x, w[1]), w[2]);
        return at::linear(at::tanh(h), w[3]);
      }};
}

TEST(Trainer, AFrozenBaseIsThereOnceAndHasNoGradient) {
  const Subject s = adapted();
  constexpr int64_t kN = 4;
  auto begin = start(s, kN, at::kDouble);
  begin["base"] = {begin["base"].tensor[1].clone(), true};
  TrainerOptions o;
  o.n = kN;
  o.frozen = {"base"};
  const Tensor base = begin["base"].tensor.clone();
  Trainer trainer(forms(s), {{"x"}}, begin, o);
  EXPECT_EQ(trainer.trained(), (std::vector<std::string>{"a", "b", "head"}));
  const Batch b = batch(s, kN, 6, at::kDouble, 3);
  const StepCheck check = trainer.check(b, kN);
  EXPECT_TRUE(check.pass) << check.failure;
  EXPECT_EQ(trainer.gradients(b).count("base"), 0);
  for (int t = 0; t < 3; ++t) trainer.step(b);
  EXPECT_TRUE(trainer.weights().at("base").equal(base));
  // a, b, head of each model with two moments, and one base.
  const int64_t own = kN * (12 + 32 + 80) * 8;
  EXPECT_EQ(trainer.memory().state_bytes, 3 * own + 96 * 8);
  begin["base"] = {base, true};
  o.frozen = {};
  EXPECT_EQ(refusal([&] { Trainer(forms(s), {{"x"}}, begin, o); }),
            "[train] weights base: got one for all models, expected one for each; try to freeze "
            "it");
}

/// Part of it under no_grad, part detached, one weight used twice.
Subject interrupted() {
  return {"interrupted",
          {6},
          {weight("w", {6, 6}), weight("v", {6, 6}), weight("head", {5, 6})},
          [](const Tensor& x, const Tensors& w, bool) {
            Tensor fixed;
            {
              const at::NoGradGuard no_grad;
              fixed = at::tanh(at::linear(x, w[0]));
            }
            const Tensor h = at::tanh(at::linear(x, w[0])) * fixed;
            const Tensor held = at::linear(h, w[1]).detach();
            return at::linear(at::linear(h, w[1]) * held + at::linear(h, w[0]), w[2]);
          }};
}

TEST(Trainer, NothingFlowsBackWhereTheNetworkSaysSo) {
  const Subject s = interrupted();
  constexpr int64_t kN = 3;
  const auto begin = start(s, kN, at::kDouble);
  TrainerOptions o;
  o.n = kN;
  Trainer trainer(forms(s), {{"x"}}, begin, o);
  const Batch b = batch(s, kN, 6, at::kDouble, 3);
  const auto got = trainer.gradients(b);
  for (int64_t i = 0; i < kN; ++i) {
    Tensors own = own_weights(s, begin, i);
    for (Tensor& t : own) t.requires_grad_();
    const Tensor loss =
        at::cross_entropy_loss(s.forward(b.inputs[0].values[i], own, true), b.target.values[i]);
    const Tensors expected = torch::autograd::grad({loss}, own);
    for (size_t k = 0; k < own.size(); ++k)
      EXPECT_TRUE(at::allclose(got.at(s.tensors[k].name)[i], expected[k], 1e-9, 1e-12))
          << s.tensors[k].name;
  }
  EXPECT_TRUE(trainer.check(b, kN).pass);
}

/// As a user writes one: batch norm and dropout with PyTorch's own switch.
struct Classifier : torch::nn::Module {
  torch::nn::Linear in{nullptr}, out{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout drop{nullptr};
  Classifier()
      : in(register_module("in", torch::nn::Linear(6, 7))),
        out(register_module("out", torch::nn::Linear(7, 5))),
        norm(register_module("norm", torch::nn::BatchNorm1d(7))),
        drop(register_module("drop", torch::nn::Dropout(0.5))) {}
  Tensor forward(const Tensor& x) { return out(drop(at::tanh(norm(in(x))))); }
};

TEST(Trainer, ModulesAreTrainedInBothForms) {
  constexpr int64_t kN = 3;
  std::vector<std::shared_ptr<Classifier>> models;
  for (int64_t i = 0; i < kN; ++i) {
    at::manual_seed(static_cast<uint64_t>(i));
    models.push_back(std::make_shared<Classifier>());
  }
  auto [forms, begin] = models_to_train(models);
  TrainerOptions o;
  o.n = kN;
  o.hyperparameters["dropout"] = {0};
  Trainer trainer(forms, {{"x"}}, begin, o);
  const Batch b = batch(mlp(), kN, 6, at::kFloat, 3);
  const StepCheck check = trainer.check(b, kN);
  EXPECT_TRUE(check.pass) << check.failure;
  Tensor losses;
  const auto got = trainer.gradients(b, &losses);
  trainer.step(b);
  const auto after = trainer.weights();
  for (int64_t i = 0; i < kN; ++i) {
    Classifier& own = *models[static_cast<size_t>(i)];
    own.train();
    own.drop->options.p(0);
    const Tensor loss =
        at::cross_entropy_loss(own.forward(b.inputs[0].values[i]), b.target.values[i]);
    loss.backward();
    EXPECT_NEAR(losses[i].item<double>(), loss.item<double>(), 1e-5);
    for (const auto& p : own.named_parameters())
      EXPECT_TRUE(at::allclose(got.at(p.key())[i], p.value().grad(), 1e-4, 1e-6)) << p.key();
    for (const auto& p : own.named_buffers())
      EXPECT_TRUE(at::allclose(after.at(p.key())[i], p.value(), 1e-5, 1e-6)) << p.key();
    const at::NoGradGuard no_grad;
    for (auto& p : own.named_parameters()) p.value().copy_(after.at(p.key())[i]);
    own.eval();
    EXPECT_TRUE(
        at::allclose(trainer.evaluate(b)[0][i], own.forward(b.inputs[0].values[i]), 1e-4, 1e-5));
  }
}

TEST(Trainer, RefusesWhatItIsNotGiven) {
  const Subject s = mlp();
  const auto begin = start(s, 3, at::kFloat);
  const auto made = [&](const std::function<void(TrainerOptions&)>& change) {
    TrainerOptions o;
    o.n = 3;
    change(o);
    return refusal([&] { Trainer(forms(s), {{"x"}}, begin, o); });
  };
  EXPECT_EQ(made([](auto& o) { o.optimizer = "adamm"; }),
            "[train] optimizer: got adamm, expected one of adam, adamw, lion, rmsprop, sgd; try "
            "adam");
  EXPECT_EQ(made([](auto& o) { o.hyperparameters["beta3"] = {0.5}; }),
            "[train] hyperparameter: got beta3, expected one of lr, weight_decay, beta1, beta2, "
            "eps, clip, label_smoothing, dropout, ema; try beta1");
  EXPECT_EQ(made([](auto& o) {
              o.hyperparameters["lr"] = {1, 2};
            }),
            "[train] lr: got 2 values, expected 3 or one for all; try one for each model");
  EXPECT_EQ(made([](auto& o) { o.hyperparameters["beta1"] = {1.5}; }),
            "[train] beta1: got 1.5, expected 0 to 0.999999999; try 0.9");
  EXPECT_EQ(made([](auto& o) {
              o.optimizer = "sgd";
              o.hyperparameters["nesterov"] = {1};
            }),
            "[train] sgd of model 0: got nesterov without momentum, or with dampening, expected "
            "compatible values; try nesterov 0");
  EXPECT_EQ(made([](auto& o) { o.frozen = {"2.weight"}; }),
            "[train] frozen: got 2.weight, expected a tensor of the network; try its state_dict's "
            "names");
  EXPECT_EQ(made([](auto& o) { o.loss.name = "cross_entrpy"; }),
            "[train] loss: got cross_entrpy, expected one of cross_entropy, nll, mse, l1, huber, "
            "bce_with_logits, output; try cross_entropy");
  EXPECT_EQ(made([](auto& o) { o.n = 4; }),
            "[train] weights 0.weight: got f32[3, 7, 6], expected [4, 7, 6]; try one for each "
            "model");
  EXPECT_EQ(made([](auto& o) { o.seeds = {1}; }),
            "[train] seeds: got 1, expected 3; try one for each model");
  TrainerOptions o;
  o.n = 3;
  o.loss.name = "mse";
  Trainer trainer(forms(s), {{"x"}}, begin, o);
  Batch b = batch(s, 3, 6, at::kFloat, 3);
  b.target.values = at::zeros({3, 6, 1});
  EXPECT_EQ(refusal([&] { trainer.step(b); }),
            "[train] target of mse: got [6, 1], expected [6, 5] as the output has it; try to "
            "reshape it, sizes are never broadcast");
  b.inputs[0].values = at::zeros({2, 6, 6});
  EXPECT_EQ(refusal([&] { trainer.step(b); }),
            "[train] x: got f32[2, 6, 6], expected [3, B, ...] for 3 models; try shared for one of "
            "all models");
}

}  // namespace
}  // namespace wide::trainer_test
