#include <ATen/record_function.h>

#include <cmath>
#include <optional>

#include "engine/error.h"
#include "engine/record/draws.h"
#include "engine/record/record.h"
#include "primitives/kernels/pointwise/counter_draws.h"
#include "tests/engine/train/subjects.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::draws_test {
namespace {

using namespace training;

Tensor number(int64_t value) { return at::full({}, value, at::kLong); }

TEST(TrainDraws, ArePhiloxs) {
  // Random123's known answers for philox4x32-10: the bits of block 0, whose words lie 16 apart.
  const auto words = [](int64_t seed) {
    const Tensor u = counter_uniform(number(seed), number(0), 0, {64}, at::kDouble);
    std::vector<uint32_t> made;
    for (int64_t w = 0; w < 4; ++w)
      made.push_back(static_cast<uint32_t>(u[16 * w].item<double>() * 0x1p24));
    return made;
  };
  for_each_target([&](const std::string& target) {
    EXPECT_EQ(words(0), (std::vector<uint32_t>{0x6627e8d5U >> 8U, 0xe169c58dU >> 8U,
                                               0xbc57ac4cU >> 8U, 0x9b00dbd8U >> 8U}))
        << target;
  });
}

TEST(TrainDraws, HangOnSeedStepSiteAndElementAlone) {
  const Tensor seeds = at::tensor({5, 9, 5}, at::kLong), steps = at::tensor({2, 2, 3}, at::kLong);
  const Tensor wide = counter_normal(seeds, steps, 4, {7, 11}, at::kFloat);
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_TRUE(
        wide[i].equal(counter_normal(seeds[i], steps[i], 4, {7, 11}, at::kDouble).to(at::kFloat)));
  EXPECT_FALSE(wide[0].equal(wide[1]));
  EXPECT_FALSE(wide[0].equal(wide[2]));
  EXPECT_FALSE(wide[0].equal(counter_normal(seeds[0], steps[0], 5, {7, 11}, at::kFloat)));
}

TEST(TrainDraws, HaveTheirDistributions) {
  const Tensor u = counter_uniform(number(1), number(0), 0, {200000}, at::kDouble);
  EXPECT_NEAR(u.mean().item<double>(), 0.5, 3e-3);
  EXPECT_NEAR(u.var().item<double>(), 1.0 / 12, 1e-3);
  EXPECT_GE(u.min().item<double>(), 0);
  EXPECT_LT(u.max().item<double>(), 1);
  const Tensor z = counter_normal(number(1), number(0), 1, {200000}, at::kDouble);
  EXPECT_NEAR(z.mean().item<double>(), 0, 8e-3);
  EXPECT_NEAR(z.var().item<double>(), 1, 1e-2);
  EXPECT_NEAR(z.pow(4).mean().item<double>(), 3, 0.1);
  const Tensor x = at::ones({200000}, at::kDouble);
  const Tensor y =
      counter_dropout(x, number(1), number(0), at::full({}, -1.0, at::kDouble), 0.3, 2, 1);
  EXPECT_NEAR(y.ne(0).to(at::kDouble).mean().item<double>(), 0.7, 5e-3);
  EXPECT_NEAR(y.max().item<double>(), 1 / 0.7, 1e-12);
}

/// Random operators in a row; what goes in is real, so that gradients pass through what lets them.
Subject random_calls() {
  return {"random",
          {4, 6},
          {weight("w", {6, 6}), weight("head", {5, 6})},
          [](const Tensor& x, const Tensors& w, bool train) {
            Tensor h = at::linear(x, w[0]);
            if (train) {
              h = at::alpha_dropout(h, 0.2, true);
              h = at::rrelu(h, 0.1, 0.4, true);
              h = h + 0.1 * at::randn_like(h) + 0.1 * at::rand(h.sizes(), h.options());
              h = h * at::bernoulli(at::full_like(h, 0.8));
              h = std::get<0>(at::native_dropout(h, 0.1, true));
              Tensor noise = at::empty_like(h);
              noise.uniform_(-1, 1);
              h = h + 0.1 * noise;
              noise.normal_(0, 0.1);
              h = h + noise;
              noise.exponential_(2.0);
              h = h + 0.1 * noise;
              noise.bernoulli_(0.5);
              h = h * (1 + 0.1 * noise);
            }
            return at::linear(h.mean(1), w[1]);
          }};
}

TEST(TrainDraws, GradientsAreThoseOfTheSameDraws) {
  const Subject s = random_calls();
  TrainerOptions o;
  o.n = 4;
  o.threads = 2;
  o.models_at_a_time = 2;
  Trainer trainer(forms(s), {{"x"}}, start(s, 4, at::kDouble), o);
  const Batch b = batch(s, 4, 5, at::kDouble, 8);
  const StepCheck check = trainer.check(b, 4);
  EXPECT_TRUE(check.pass) << check.failure;
  Tensor first, again, next;
  trainer.gradients(b, &first);
  trainer.gradients(b, &again);
  EXPECT_TRUE(first.equal(again));  // the same step draws the same
  o.hyperparameters["lr"] = {0};
  o.hyperparameters["weight_decay"] = {0};
  Trainer still(forms(s), {{"x"}}, start(s, 4, at::kDouble), o);
  still.step(b);
  still.gradients(b, &next);
  EXPECT_TRUE(next.ne(first).all().item<bool>());  // the next one draws anew
  EXPECT_TRUE(still.evaluate(b)[0].isfinite().all().item<bool>());
}

TEST(TrainDraws, ModelsOfOneSeedDrawTheSame) {
  const Subject s = random_calls();
  TrainerOptions o;
  o.n = 3;
  o.seeds = {4, 7, 4};
  auto begin = start(s, 3, at::kDouble);
  for (auto& [name, t] : begin) t.tensor = expanded(3, t.tensor[0]).contiguous();
  Batch b = batch(s, 3, 5, at::kDouble, 8);
  b.inputs[0].values = expanded(3, b.inputs[0].values[0]).contiguous();
  b.target.values = expanded(3, b.target.values[0]).contiguous();
  Trainer trainer(forms(s), {{"x"}}, begin, o);
  Tensor losses;
  trainer.gradients(b, &losses);
  EXPECT_NEAR(losses[0].item<double>(), losses[2].item<double>(), 1e-12);
  EXPECT_GT(std::abs(losses[0].item<double>() - losses[1].item<double>()), 1e-6);
}

TEST(TrainDraws, DropoutIsEachModelsOwnNumber) {
  Subject s{
      "drop", {400}, {weight("w", {400}, 1.0)}, [](const Tensor& x, const Tensors& w, bool train) {
        return at::dropout(x * w[0], 0.25, train).mean();
      }};
  TrainerOptions o;
  o.n = 3;
  o.loss.name = "output";
  o.hyperparameters["dropout"] = {-1, 0, 0.5};
  Trainer trainer(forms(s), {{"x"}}, start(s, 3, at::kDouble), o);
  const Batch b{.inputs = {{at::ones({3, 20, 400}, at::kDouble)}}};
  const Tensor g = trainer.gradients(b).at("w");  // mean over rows of mask / (1 - p) / 400
  const double expected_scale[] = {1 / 0.75, 1, 2};
  const double spread[] = {0.25 / 0.75, 0, 1};  // p / (1 - p): a mask's variance
  for (int64_t i = 0; i < 3; ++i) {
    const Tensor mask = g[i] * 400;
    EXPECT_NEAR(mask.mean().item<double>(), 1, 0.03) << expected_scale[i];
    EXPECT_NEAR(mask.var().item<double>() * 20, spread[i], 0.15);
  }
  trainer.set_hyperparameter("dropout", 0, 0);
  EXPECT_TRUE(at::allclose(trainer.gradients(b).at("w")[0] * 400, at::ones({400}, at::kDouble)));
}

TEST(TrainDraws, RandomSlopesAreEvenlySpreadBelowZeroAlone) {
  Subject s{
      "rrelu", {400}, {weight("w", {400}, 1.0)}, [](const Tensor& x, const Tensors& w, bool train) {
        return at::rrelu(x * w[0].square(), 0.1, 0.4, train).mean();
      }};
  TrainerOptions o;
  o.n = 2;
  o.loss.name = "output";
  Trainer trainer(forms(s), {{"x"}}, start(s, 2, at::kDouble), o);
  const auto slopes = [&](double x) {  // of the mean over rows, by 2 w x / 400
    const Batch b{.inputs = {{at::full({2, 20, 400}, x, at::kDouble)}}};
    const Tensor w = trainer.weights().at("w");
    return trainer.gradients(b).at("w") * 400 / (2 * w * x);
  };
  EXPECT_TRUE(at::allclose(slopes(1), at::ones({2, 400}, at::kDouble)));
  const Tensor below = slopes(-1);
  EXPECT_FALSE(below[0].equal(below[1]));
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(below[i].mean().item<double>(), 0.25, 0.003);
    EXPECT_NEAR(below[i].var().item<double>() * 20, 0.3 * 0.3 / 12, 0.0015);
  }
  const Batch b{.inputs = {{at::full({2, 3, 400}, -1.0, at::kDouble)}}};
  const Tensor w = trainer.weights().at("w");
  EXPECT_TRUE(at::allclose(trainer.evaluate(b)[0].view({2}), -0.25 * w.square().mean(1)));
}

/// Notes for every call of aten::linear whether cuDNN may be used in it.
thread_local std::vector<bool> cudnn_in_linear;

std::unique_ptr<at::ObserverContext> note_cudnn(const at::RecordFunction& call) {
  if (std::string(call.name()) == "aten::linear")
    cudnn_in_linear.push_back(at::globalContext().userEnabledCuDNN());
  return nullptr;
}

TEST(TrainDraws, RecurrentLayersAreRecordedWithoutCudnn) {
  cudnn_in_linear.clear();
  const auto callback = at::addThreadLocalCallback(
      at::RecordFunctionCallback(note_cudnn).scopes({at::RecordScope::FUNCTION}));
  const auto recorded = [](bool by_counter) {
    const Tensor x = at::randn({3, 2, 6}), zero = at::zeros({1, 2, 4});
    const Tensor w = at::randn({16, 6}), u = at::randn({16, 4}), head = at::randn({5, 4});
    return record({{"x", Role::input, x}, {"w", Role::parameter, w}, {"u", Role::parameter, u}},
                  [&](const Tensors& t) {
                    std::optional<DrawsByCounter> draws;
                    if (by_counter) draws.emplace(number(1), number(2), number(-1));
                    const auto [y, h, c] = at::lstm(t[0], {zero, zero}, {t[1], t[2]}, false, 1, 0.0,
                                                    true, false, false);
                    return Tensors{at::linear(y, head)};
                  });
  };
  recorded(true);
  ASSERT_GT(cudnn_in_linear.size(), 1U);
  EXPECT_TRUE(cudnn_in_linear.back());  // behind the layer
  cudnn_in_linear.pop_back();
  EXPECT_EQ(cudnn_in_linear, std::vector<bool>(cudnn_in_linear.size(), false));
  cudnn_in_linear.clear();
  recorded(false);
  EXPECT_EQ(cudnn_in_linear, std::vector<bool>(cudnn_in_linear.size(), true));
  at::removeCallback(callback);
}

TEST(TrainDraws, RecurrentLayersOfCudnnAreRandomByTheirDropoutAlone) {
  const auto random = [](double dropout, bool train) {
    Node node{c10::Dispatcher::singleton().findSchemaOrThrow("aten::_cudnn_rnn", ""), {}, {}, {}};
    for (const c10::Argument& a : node.op.schema().arguments())
      node.arguments.push_back(a.name() == "dropout" ? Argument::of(dropout)
                               : a.name() == "train" ? Argument::of(train)
                                                     : Argument::of(c10::IValue()));
    return node.is_random();
  };
  EXPECT_FALSE(random(0.0, true));
  EXPECT_FALSE(random(0.5, false));
  EXPECT_TRUE(random(0.5, true));
}

TEST(TrainDraws, OthersAreRefusedByName) {
  Subject s{"permuted", {6}, {weight("w", {5, 6})}, [](const Tensor& x, const Tensors& w, bool) {
              return at::linear(x.index_select(1, at::randperm(6)), w[0]);
            }};
  TrainerOptions o;
  o.n = 2;
  Trainer trainer(forms(s), {{"x"}}, start(s, 2, at::kFloat), o);
  try {
    trainer.step(batch(s, 2, 3, at::kFloat, 1));
    FAIL();
  } catch (const Unsupported& e) {
    EXPECT_STREQ(e.what(),
                 "[train] random operator: got aten::randperm, expected dropout, rand, randn, "
                 "bernoulli or their like; try one of those operators");
  }
}

}  // namespace
}  // namespace wide::draws_test
