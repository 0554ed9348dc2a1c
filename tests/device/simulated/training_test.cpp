// N models trained on the simulated device against the trainer of the CPU and against separate
// models: numbers, draws, what is stopped, copied, suppressed, saved and resumed.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <cmath>

#include "engine/error.h"
#include "engine/train/trainer.h"
#include "primitives/kernels/pointwise/counter_draws.h"
#include "tests/device/simulated/backend.h"
#include "tests/engine/train/subjects.h"

namespace wide::simulated {
namespace {

using namespace training;
using Lines = std::vector<std::string>;

class SimulatedTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    static const bool once = (install(), true);
    (void)once;
    Streams::get().reset(1);
  }
  void TearDown() override {
    EXPECT_EQ(Streams::get().violations, Lines{});
    Streams::get().reset(1);
  }
};

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

/// With dropout on numbers and on channels.
Subject dropping_net() {
  return {"dropping",
          {3, 6, 6},
          {weight("conv.weight", {4, 3, 3, 3}), weight("conv.bias", {4}),
           weight("fc.weight", {5, 4}), weight("fc.bias", {5})},
          [](const Tensor& x, const Tensors& w, bool train) {
            Tensor h = at::feature_dropout(at::relu(at::conv2d(x, w[0], w[1])), 0.2, train);
            return at::linear(at::dropout(h.mean({2, 3}), 0.4, train), w[2], w[3]);
          }};
}

void expect_close(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b,
                  double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, t] : a) {
    const Tensor x = t.to(at::kDouble), y = b.at(name).to(at::kDouble);
    ASSERT_EQ(x.sizes(), y.sizes()) << name;
    ASSERT_TRUE(x.isfinite().all().item<bool>()) << name;
    if (x.numel() == 0) continue;
    EXPECT_LE((x - y).abs().max().item<double>(), tolerance * (1 + y.abs().max().item<double>()))
        << name;
  }
}

/// The same trainer on both devices.
struct Both {
  Trainer cpu, device;
  double tolerance;

  Both(const Subject& s, TrainerOptions o, at::ScalarType dtype)
      : cpu(forms(s), {{"x"}}, start(s, o.n, dtype), o),
        device(forms(s), {{"x"}}, start(s, o.n, dtype), on_device(o)),
        tolerance(dtype == at::kDouble ? 1e-9 : 2e-4) {}
  static TrainerOptions on_device(TrainerOptions o) {
    o.device = kDevice;
    return o;
  }
  void step(const Batch& b) {
    const StepResult here = cpu.step(b), there = device.step(b);
    EXPECT_TRUE(here.losses.isnan().equal(there.losses.isnan()));
    EXPECT_TRUE(at::allclose(there.losses, here.losses, tolerance, tolerance, /*equal_nan=*/true))
        << there.losses << here.losses;
    EXPECT_TRUE(here.suppressed.equal(there.suppressed)) << there.suppressed << here.suppressed;
  }
  void expect_equal(const Batch& b) {
    expect_close(device.state().tensors, cpu.state().tensors, tolerance);
    expect_close(device.weights(), cpu.weights(), tolerance);
    const Tensor y = device.evaluate(b)[0], expected = cpu.evaluate(b)[0];
    EXPECT_TRUE(at::allclose(y, expected, 10 * tolerance, 10 * tolerance));
  }
};

TrainerOptions options_of(int64_t n, const std::string& optimizer = "adamw") {
  TrainerOptions o;
  o.n = n;
  o.optimizer = optimizer;
  o.tune = false;
  o.threads = 1;
  return o;
}

TEST_F(SimulatedTraining, EveryOptimiserStepsAsOnTheCpu) {
  for (const Optimizer& optimizer : optimizers())
    for (const Subject& s : {mlp(), batch_norm_net()}) {
      SCOPED_TRACE(optimizer.name + " " + s.name);
      TrainerOptions o = options_of(3, optimizer.name);
      o.hyperparameters = {{"lr", {1e-2, 3e-3, 2e-2}},
                           {"weight_decay", {0, 0.1, 0.02}},
                           {"clip", {0, 0.5, 1e-2}},
                           {"ema", {0, 0.9, 0.5}}};
      if (optimizer.index("momentum") >= 0) o.hyperparameters["momentum"] = {0, 0.9, 0.5};
      if (optimizer.index("nesterov") >= 0) o.hyperparameters["nesterov"] = {0, 1, 0};
      o.no_decay = {s.tensors[1].name};
      o.schedule = parse_schedule("cosine:0.1", 2, 8);
      Both both(s, o, at::kDouble);
      for (int64_t t = 0; t < 7; ++t)  // every third batch is a short one
        both.step(batch(s, 3, t % 3 == 2 ? 3 : 7, at::kDouble, 40 + uint64_t(t)));
      both.expect_equal(batch(s, 3, 5, at::kDouble, 60));
    }
}

TEST_F(SimulatedTraining, FloatsToo) {
  for (const Subject& s : subjects())
    for (const int64_t n : {1, 5}) {
      SCOPED_TRACE(fmt::format("{} of {}", n, s.name));
      TrainerOptions o = options_of(n, "sgd");
      o.hyperparameters["lr"] = {1e-2};
      o.hyperparameters["momentum"] = {0.9};
      Both both(s, o, at::kFloat);
      for (int64_t t = 0; t < 5; ++t) both.step(batch(s, n, 6, at::kFloat, 80 + uint64_t(t)));
      both.expect_equal(batch(s, n, 4, at::kFloat, 60));
    }
}

TEST_F(SimulatedTraining, AsSeparateModelsOfTorch) {
  const Subject s = batch_norm_net();
  constexpr int64_t kN = 3;
  TrainerOptions o = options_of(kN, "sgd");
  o.hyperparameters = {
      {"lr", {0.1, 0.02, 0.05}}, {"momentum", {0.9, 0.5, 0.8}}, {"weight_decay", {1e-2, 0, 0.1}}};
  o.device = kDevice;
  const auto begin = start(s, kN, at::kDouble);
  Trainer trainer(forms(s), {{"x"}}, begin, o);
  std::vector<Tensors> own;
  std::vector<std::unique_ptr<torch::optim::SGD>> optimizers;
  for (int64_t i = 0; i < kN; ++i) {
    own.push_back(own_weights(s, begin, i));
    Tensors trained;
    for (size_t k = 0; k < 5; ++k) trained.push_back(own.back()[k].requires_grad_());
    const auto of = [&](const char* name) { return o.hyperparameters.at(name)[size_t(i)]; };
    optimizers.push_back(
        std::make_unique<torch::optim::SGD>(trained, torch::optim::SGDOptions(of("lr"))
                                                         .momentum(of("momentum"))
                                                         .weight_decay(of("weight_decay"))));
  }
  for (int64_t t = 0; t < 6; ++t) {
    const Batch b = batch(s, kN, t == 5 ? 3 : 6, at::kDouble, 20 + uint64_t(t));
    const Tensor losses = trainer.step(b).losses;
    for (int64_t i = 0; i < kN; ++i) {
      const size_t m = static_cast<size_t>(i);
      optimizers[m]->zero_grad();
      const Tensor loss = at::cross_entropy_loss(s.forward(b.inputs[0].values[i], own[m], true),
                                                 b.target.values[i]);
      loss.backward();
      optimizers[m]->step();
      EXPECT_NEAR(losses[i].item<double>(), loss.item<double>(), 1e-9);
    }
  }
  const auto got = trainer.weights();
  for (int64_t i = 0; i < kN; ++i)
    for (size_t k = 0; k < s.tensors.size(); ++k)
      EXPECT_TRUE(
          at::allclose(got.at(s.tensors[k].name)[i], own[size_t(i)][k].detach(), 1e-9, 1e-10))
          << s.tensors[k].name << " of " << i;
}

TEST_F(SimulatedTraining, DrawsAreTheCpusBitByBit) {
  const Tensor seeds = at::tensor(std::vector<int64_t>{5, -9, int64_t{1} << 40}, at::kLong);
  const Tensor steps = at::tensor({2, 7, 3}, at::kLong), p = at::tensor({-1.0, 0.25, 1.0});
  const Tensor x = random({3, 4, 29}, at::kFloat, 3);
  const auto there = [](const Tensor& t) { return t.to(kDevice); };
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    EXPECT_TRUE(counter_uniform(there(seeds), there(steps), 4, {7, 31}, dtype)
                    .cpu()
                    .equal(counter_uniform(seeds, steps, 4, {7, 31}, dtype)));
    EXPECT_TRUE(at::allclose(counter_normal(there(seeds), there(steps), 4, {7, 31}, dtype).cpu(),
                             counter_normal(seeds, steps, 4, {7, 31}, dtype), 1e-6, 1e-6));
  }
  EXPECT_TRUE(counter_uniform(there(seeds[1]), there(steps[1]), 1, {130}, at::kFloat)
                  .cpu()
                  .equal(counter_uniform(seeds[1], steps[1], 1, {130}, at::kFloat)));
  for (const int64_t drawn : {1, 2, 1 << 20})
    EXPECT_TRUE(counter_dropout(there(x), there(seeds), there(steps), there(p), 0.3, 6, drawn)
                    .cpu()
                    .equal(counter_dropout(x, seeds, steps, p, 0.3, 6, drawn)));
}

TEST_F(SimulatedTraining, DropoutAndSmoothingAreEachModelsOwn) {
  const Subject s = dropping_net();
  TrainerOptions o = options_of(3);
  o.seeds = {7, 8, 7};
  o.hyperparameters = {{"dropout", {-1, 0.6, 0}}, {"label_smoothing", {0, 0.1, 0.3}}};
  Both both(s, o, at::kDouble);
  for (int64_t t = 0; t < 3; ++t) both.step(batch(s, 3, 6, at::kDouble, uint64_t(t)));
  for (Trainer* trainer : {&both.cpu, &both.device}) {
    trainer->set_hyperparameter("dropout", 2, 0.5);
    trainer->set_hyperparameter("label_smoothing", 0, 0.2);
  }
  for (int64_t t = 3; t < 6; ++t) both.step(batch(s, 3, 6, at::kDouble, uint64_t(t)));
  both.expect_equal(batch(s, 3, 6, at::kDouble, 9));
}

TEST_F(SimulatedTraining, AModelThatDivergesIsLeftAsItWas) {
  const Subject s = batch_norm_net();
  TrainerOptions o = options_of(4, "sgd");
  o.hyperparameters["lr"] = {1e-2, 2e-2, 1e30, 3e-2};
  Both both(s, o, at::kFloat);
  int64_t suppressed = 0;
  for (int64_t t = 0; t < 6; ++t) {
    const auto before = both.device.weights(2);
    const Batch b = batch(s, 4, 7, at::kFloat, 70 + uint64_t(t));
    const StepResult r = both.device.step(b);
    for (const int64_t i : {0, 1, 3}) EXPECT_FALSE(r.suppressed[i].item<bool>());
    both.cpu.step(b);
    if (!r.suppressed[2].item<bool>()) continue;
    ++suppressed;
    expect_same_bits(both.device.weights(2), before);
  }
  EXPECT_GT(suppressed, 3);
  const auto here = both.cpu.weights(), there = both.device.weights();
  for (const auto& [name, t] : there)
    for (const int64_t i : {0, 1, 3})
      EXPECT_TRUE(at::allclose(t[i].to(at::kDouble), here.at(name)[i].to(at::kDouble), 1e-3, 1e-4))
          << name << " of " << i;
  // A batch of one model that is NaN.
  Both again(s, options_of(3), at::kDouble);
  Batch b = batch(s, 3, 6, at::kDouble, 1);
  again.step(b);
  b.inputs[0].values.select(0, 1).select(0, 2).fill_(std::nan(""));
  const auto before = again.device.state().tensors;
  again.step(b);
  const auto after = again.device.state().tensors;
  for (const auto& [name, t] : before) {
    if (name == "seeds" || name == "running") continue;
    EXPECT_TRUE(t[1].equal(after.at(name)[1])) << name;
  }
  EXPECT_EQ(after.at("steps")[1].item<int64_t>(), 1);
  EXPECT_EQ(after.at("steps")[2].item<int64_t>(), 2);
  again.expect_equal(batch(s, 3, 6, at::kDouble, 2));
}

TEST_F(SimulatedTraining, AGradientThatIsNotFiniteWritesNothing) {
  // The root's slope at 0 is infinite, its value is not.
  const Subject s{"root", {4}, {weight("w", {4})}, [](const Tensor& x, const Tensors& w, bool) {
                    return (x * w[0]).abs().sum().sqrt();
                  }};
  for (const Optimizer& optimizer : optimizers())
    for (const double clip : {0.0, 0.5}) {
      SCOPED_TRACE(fmt::format("{} clip {}", optimizer.name, clip));
      TrainerOptions o = options_of(3, optimizer.name);
      o.loss.name = "output";
      o.hyperparameters["clip"] = {clip};
      Both both(s, o, at::kFloat);
      Batch b{.inputs = {{random({3, 2, 4}, at::kFloat, 1)}}};
      b.inputs[0].values.select(0, 1).zero_();
      const Tensor before = both.device.weights().at("w");
      both.step(b);
      both.step(b);
      const Tensor after = both.device.weights().at("w");
      for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(before[i].equal(after[i]), i == 1);
      both.expect_equal(b);
    }
}

TEST_F(SimulatedTraining, StopsCopiesAndTakesWeights) {
  const Subject s = batch_norm_net();
  TrainerOptions o = options_of(5, "adam");
  o.hyperparameters["ema"] = {0.5};
  Both both(s, o, at::kDouble);
  const auto run = [&](int64_t from, int64_t to) {
    for (int64_t t = from; t < to; ++t) both.step(batch(s, 5, 6, at::kDouble, 10 + uint64_t(t)));
  };
  const auto each = [&](const std::function<void(Trainer&)>& change) {
    change(both.cpu);
    change(both.device);
  };
  run(0, 2);
  each([](Trainer& t) { t.stop(3); });
  each([](Trainer& t) { t.stop(0); });
  EXPECT_EQ(both.device.running(), (std::vector<int64_t>{1, 2, 4}));
  run(2, 4);
  both.expect_equal(batch(s, 5, 4, at::kDouble, 3));
  each([](Trainer& t) { t.copy(4, 1); });
  run(4, 6);
  both.expect_equal(batch(s, 5, 4, at::kDouble, 3));
  const auto other = both.cpu.weights();
  each([&](Trainer& t) { t.set_weights(other); });
  EXPECT_EQ(both.device.running().size(), 5u);
  run(6, 8);
  both.expect_equal(batch(s, 5, 4, at::kDouble, 3));
  each([](Trainer& t) {
    for (int64_t i = 0; i < 5; ++i) t.stop(i);
  });
  EXPECT_EQ(refusal_of([&] { both.device.step(batch(s, 5, 6, at::kDouble, 1)); }),
            refusal_of([&] { both.cpu.step(batch(s, 5, 6, at::kDouble, 1)); }));
}

TEST_F(SimulatedTraining, GoesOnFromItsStateWithTheSameBits) {
  const Subject s = dropping_net();
  TrainerOptions o = options_of(5, "adam");
  o.hyperparameters["ema"] = {0.9};
  o.schedule = parse_schedule("linear", 0, 20);
  o.device = kDevice;
  const auto data = [&](int64_t t) { return batch(s, 5, 6, at::kFloat, 90 + uint64_t(t)); };
  Trainer whole(forms(s), {{"x"}}, start(s, 5, at::kFloat), o);
  for (int64_t t = 0; t < 4; ++t) {
    whole.step(data(t));
    if (t == 1) whole.stop(2);
    if (t == 2) whole.set_hyperparameter("lr", 1, 5e-3);
  }
  Trainer resumed(forms(s), {{"x"}}, start(s, 5, at::kFloat, 99), o);
  resumed.load_state(whole.state());
  for (int64_t t = 4; t < 7; ++t) {
    const StepResult a = whole.step(data(t)), b = resumed.step(data(t));
    EXPECT_TRUE(at::allclose(a.losses, b.losses, 0, 0, /*equal_nan=*/true));
  }
  expect_same_bits(whole.state().tensors, resumed.state().tensors);
  EXPECT_TRUE(whole.evaluate(data(9))[0].equal(resumed.evaluate(data(9))[0]));
}

TEST_F(SimulatedTraining, AStepIsOneGraphWhateverTheRates) {
  const Subject s = mlp();
  TrainerOptions o = options_of(3, "sgd");
  o.hyperparameters = {{"lr", {0.1}}, {"dampening", {0.3}}};
  o.schedule = parse_schedule("cosine:0.1", 3, 30);
  Both both(s, o, at::kDouble);
  const auto data = [&](int64_t t) {
    return batch(s, 3, t % 4 == 3 ? 3 : 6, at::kDouble, 5 + uint64_t(t));
  };
  for (int64_t t = 0; t < 4; ++t) both.step(data(t));
  const int64_t recordings = both.device.recordings(),
                captured = Streams::get().allocations_in_captures;
  for (int64_t t = 4; t < 12; ++t) {
    const int64_t replays = Streams::get().replays;
    both.device.set_hyperparameter("lr", t % 3, 0.01 * double(t));
    both.cpu.set_hyperparameter("lr", t % 3, 0.01 * double(t));
    both.step(data(t));
    EXPECT_EQ(Streams::get().replays, replays + 1);
  }
  EXPECT_EQ(both.device.recordings(), recordings);
  EXPECT_EQ(Streams::get().allocations_in_captures, captured) << "captured again";
  both.expect_equal(data(1));
  // What calls for something more is captured anew.
  for (Trainer* t : {&both.cpu, &both.device}) {
    t->set_hyperparameter("clip", 1, 1e-3);
    t->set_hyperparameter("momentum", 0, 0.9);
    t->set_hyperparameter("ema", 2, 0.5);
  }
  for (int64_t t = 12; t < 15; ++t) both.step(data(t));
  both.expect_equal(data(1));
}

Tensor& expm1_by_the_host(const Tensor& x, Tensor& out) { return out.copy_(at::expm1(x.cpu())); }
Tensor& expm1_in_place_by_the_host(Tensor& x) { return expm1_by_the_host(x, x); }
Tensor new_expm1_by_the_host(const Tensor& x) {
  Tensor out = at::empty_like(x);
  return expm1_by_the_host(x, out);
}

TEST_F(SimulatedTraining, WhatReadsOnTheHostRunsCallByCall) {
  // As those of linear algebra do on a GPU.
  torch::Library host_reads(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                            __LINE__);
  host_reads.impl("expm1", &new_expm1_by_the_host);
  host_reads.impl("expm1_", &expm1_in_place_by_the_host);
  host_reads.impl("expm1.out", &expm1_by_the_host);
  const Subject s{"host",
                  {6},
                  {weight("w", {5, 6}), weight("b", {5})},
                  [](const Tensor& x, const Tensors& w, bool) {
                    return at::expm1(at::tanh(at::linear(x, w[0], w[1])));
                  }};
  Both both(s, options_of(3), at::kDouble);
  const int64_t replays = Streams::get().replays;
  for (int64_t t = 0; t < 5; ++t)
    both.step(batch(s, 3, t == 3 ? 3 : 6, at::kDouble, 5 + uint64_t(t)));
  both.expect_equal(batch(s, 3, 6, at::kDouble, 9));
  EXPECT_EQ(Streams::get().replays, replays);
  const Lines notes = both.device.notes();
  ASSERT_EQ(notes.size(), 2U);  // steps; evaluations
  EXPECT_EQ(
      notes[0].rfind("steps run call by call instead of as a graph: [graph] capture: got ", 0), 0U)
      << notes[0];
  EXPECT_EQ(both.cpu.notes(), Lines{});
  EXPECT_NE(Streams::get().violations, Lines{});  // the captures that were tried
  Streams::get().violations.clear();
}

TEST_F(SimulatedTraining, RowsAreTakenOnTheDeviceOrPreparedOnTheHost) {
  const Subject s = mlp();
  constexpr int64_t kN = 3, kRows = 20, kB = 6;
  const Tensor pixels = classes({kRows, 6}, 256, 5).to(at::kByte);
  const Tensor labels = classes({kN, kRows}, 5, 6).to(at::kInt),
               order = classes({kN, kB}, kRows, 7);
  Both both(s, options_of(kN), at::kDouble);
  Batch b;
  b.inputs = {{pixels, true, order, {}}};
  b.target = {labels, false, order, {}};
  b.weight = {random({kRows}, at::kDouble, 8).abs(), true, order[1], {}};
  both.step(b);
  both.step(b);
  b.inputs[0].prepare = [](int64_t model, const Tensor& x) {
    return (x.to(at::kDouble) - 100) / (50 + double(model));
  };
  both.step(b);
  for (Trainer* t : {&both.cpu, &both.device}) t->stop(1);
  both.step(b);
  b.inputs[0] = {pixels, true, order[0], {}};
  both.step(b);
  both.expect_equal({.inputs = {{pixels, true, order, {}}}});
  b.target.rows = order + kRows;
  EXPECT_NE(refusal_of([&] { both.device.step(b); }).find("[train] rows of target: got "),
            std::string::npos);
}

TEST_F(SimulatedTraining, GradientsAreCheckedAgainstTheCpu) {
  const Subject s = dropping_net();
  TrainerOptions o = options_of(4);
  o.device = kDevice;
  Trainer trainer(forms(s), {{"x"}}, start(s, 4, at::kFloat), o);
  const Batch b = batch(s, 4, 6, at::kFloat, 3);
  for (int i = 0; i < 2; ++i) {
    const StepCheck check = trainer.check(b, 3);
    EXPECT_TRUE(check.pass) << check.failure;
    EXPECT_EQ(check.models, 3);
    EXPECT_GT(check.gradient_error, 0);
    trainer.step(b);
  }
  EXPECT_GT(trainer.memory().range_bytes, 0);
}

TEST_F(SimulatedTraining, RefusesWhatTheCpuAloneHas) {
  const Subject s = mlp();
  const auto made = [&](const std::function<void(TrainerOptions&)>& change) {
    TrainerOptions o = options_of(3);
    o.device = kDevice;
    change(o);
    return refusal_of([&] { Trainer(forms(s), {{"x"}}, start(s, 3, at::kFloat), o); });
  };
  EXPECT_EQ(made([](auto& o) { o.exact = true; }),
            "[train] exact: got it with simulated:0, expected a training on the CPU; try without, "
            "or device cpu");
  EXPECT_EQ(
      made([](auto& o) { o.models_at_a_time = 2; }),
      "[train] models_at_a_time: got it with simulated:0, expected a training on the CPU; try "
      "without, or device cpu");
  EXPECT_EQ(made([](auto& o) { o.memory_limit = 1 << 20; }),
            "[train] memory_limit: got it with simulated:0, expected a training on the CPU; try "
            "without, or device cpu");
  EXPECT_EQ(made([](auto& o) { o.device = c10::Device(kDevice.type(), 5); }),
            "[device] simulated:5: got index 5, expected below 1; try simulated:0");
}

}  // namespace
}  // namespace wide::simulated
