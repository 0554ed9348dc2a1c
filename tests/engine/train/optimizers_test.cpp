#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>

#include "engine/error.h"
#include "engine/train/optimizer/list_step.h"
#include "tests/engine/train/subjects.h"

namespace wide::optimizers_test {
namespace {

using namespace training;

constexpr int64_t kN = 3, kSteps = 20;

/// A number a model; missing where the optimiser has none.
using Values = std::map<std::string, std::vector<double>>;

/// p and q whose gradients are what comes in: the loss is the sum of the products.
Subject given_gradients() {
  return {"products",
          {11},
          {weight("p", {3, 2}, 1.0), weight("q", {5}, 1.0)},
          [](const Tensor& x, const Tensors& w, bool) {
            return (x.slice(1, 0, 6) * w[0].flatten()).sum() + (x.slice(1, 6) * w[1]).sum();
          }};
}

Tensor gradient(int64_t step) { return random({kN, 1, 11}, at::kDouble, 100 + uint64_t(step)); }

double at(const Values& values, const std::string& name, int64_t model, double otherwise) {
  const auto found = values.find(name);
  return found == values.end() ? otherwise : found->second[static_cast<size_t>(model)];
}

/// torch.optim's own, for one model; `decays`: the parameter has weight decay.
std::unique_ptr<torch::optim::Optimizer> torch_optimizer(const std::string& name, Tensor parameter,
                                                         const Values& v, int64_t i, bool decays) {
  const Optimizer& o = optimizer(name);
  const auto own = [&](const char* key) {
    return at(v, key, i, o.hyperparameters[static_cast<size_t>(o.index(key))].value);
  };
  const double decay = decays ? own("weight_decay") : 0;
  if (name == "sgd")
    return std::make_unique<torch::optim::SGD>(std::vector<Tensor>{parameter},
                                               torch::optim::SGDOptions(own("lr"))
                                                   .weight_decay(decay)
                                                   .momentum(own("momentum"))
                                                   .nesterov(own("nesterov") != 0)
                                                   .dampening(own("dampening")));
  if (name == "rmsprop")
    return std::make_unique<torch::optim::RMSprop>(std::vector<Tensor>{parameter},
                                                   torch::optim::RMSpropOptions(own("lr"))
                                                       .weight_decay(decay)
                                                       .momentum(own("momentum"))
                                                       .alpha(own("alpha"))
                                                       .eps(own("eps")));
  const auto betas = std::make_tuple(own("beta1"), own("beta2"));
  if (name == "adam")
    return std::make_unique<torch::optim::Adam>(
        std::vector<Tensor>{parameter},
        torch::optim::AdamOptions(own("lr")).weight_decay(decay).betas(betas).eps(own("eps")));
  return std::make_unique<torch::optim::AdamW>(
      std::vector<Tensor>{parameter},
      torch::optim::AdamWOptions(own("lr")).weight_decay(decay).betas(betas).eps(own("eps")));
}

void set_rate(torch::optim::Optimizer& optimizer, double lr) {
  optimizer.param_groups()[0].options().set_lr(lr);
}

/// Lion as its paper's algorithm 2 has it.
void lion(Tensor& p, Tensor& m, const Tensor& g, double lr, double decay, double b1, double b2) {
  const Tensor c = b1 * m + (1 - b1) * g;
  p = p - lr * (c.sign() + decay * p);
  m = b2 * m + (1 - b2) * g;
}

void compare(const std::string& name, Values v, const Schedule& schedule,
             double tolerance = 1e-12) {
  SCOPED_TRACE(name);
  const Subject s = given_gradients();
  TrainerOptions o;
  o.n = kN;
  o.loss.name = "output";
  o.optimizer = name;
  o.hyperparameters = v;
  o.schedule = schedule;
  o.no_decay = {"q"};
  const auto begin = start(s, kN, at::kDouble);
  Trainer trainer(forms(s), {{"x"}}, begin, o);
  for (int64_t t = 0; t < kSteps; ++t) trainer.step({.inputs = {{gradient(t)}}});
  const auto got = trainer.weights();
  for (int64_t i = 0; i < kN; ++i) {
    Tensors own = own_weights(s, begin, i), moments;
    std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
    for (size_t k = 0; k < 2; ++k) {
      own[k].requires_grad_();
      moments.push_back(at::zeros_like(own[k]));
      if (name != "lion") optimizers.push_back(torch_optimizer(name, own[k], v, i, k == 0));
    }
    const double lr = v.at("lr")[static_cast<size_t>(i)], clip = at(v, "clip", i, 0);
    for (int64_t t = 0; t < kSteps; ++t) {
      Tensor g = gradient(t)[i][0];
      if (clip > 0) g = g * std::min(1.0, clip / (g.norm().item<double>() + 1e-6));
      own[0].mutable_grad() = g.slice(0, 0, 6).view({3, 2}).clone();
      own[1].mutable_grad() = g.slice(0, 6).clone();
      const double rate = lr * schedule.factor(t);
      for (size_t k = 0; k < 2; ++k) {
        if (name == "lion") {
          const at::NoGradGuard no_grad;
          Tensor p = own[k].detach();
          lion(p, moments[k], own[k].grad(), rate, k == 0 ? at(v, "weight_decay", i, 0) : 0,
               at(v, "beta1", i, 0.9), at(v, "beta2", i, 0.99));
          own[k].copy_(p);
        } else {
          set_rate(*optimizers[k], rate);
          optimizers[k]->step();
        }
      }
    }
    for (size_t k = 0; k < 2; ++k) {
      const Tensor off = (got.at(s.tensors[k].name)[i] - own[k]).abs().max();
      EXPECT_LE(off.item<double>(), tolerance * own[k].abs().max().item<double>())
          << s.tensors[k].name << " of model " << i;
    }
  }
}

Schedule constant() { return {}; }

TEST(TrainOptimizers, AreThoseOfTorch) {
  const std::vector<double> lr{1e-2, 3e-3, 5e-2}, decay{0.0, 0.1, 0.02};
  const Values plain{{"lr", lr}, {"weight_decay", decay}};
  const auto with = [&](Values more) {
    more.insert(plain.begin(), plain.end());
    return more;
  };
  compare("sgd", plain, constant());
  compare("sgd", with({{"momentum", {0.9, 0.0, 0.5}}, {"dampening", {0.1, 0.0, 0.3}}}), constant());
  compare("sgd", with({{"momentum", {0.9, 0.8, 0.5}}, {"nesterov", {1, 0, 1}}}), constant());
  compare("adam", plain, constant());
  compare(
      "adam",
      with(
          {{"beta1", {0.9, 0.5, 0.0}}, {"beta2", {0.999, 0.9, 0.99}}, {"eps", {1e-8, 1e-3, 1e-6}}}),
      constant());
  compare("adamw", plain, constant());
  compare("adamw", {{"lr", lr}}, constant());
  compare("rmsprop", plain, constant());
  compare("rmsprop", with({{"momentum", {0.9, 0.0, 0.5}}, {"alpha", {0.9, 0.99, 0.5}}}),
          constant());
  compare("lion", plain, constant());
  compare("lion", with({{"beta1", {0.95, 0.9, 0.5}}, {"beta2", {0.98, 0.99, 0.6}}}), constant());
}

/// The first gradient of a new momentum buffer counts in full, the later ones are dampened; a
/// buffer stays where momentum is set to 0 for some steps.
TEST(TrainOptimizers, MomentumThatIsSetLaterIsThatOfTorch) {
  const std::vector<std::vector<double>> momentum{
      {0, 0.9, 0.9, 0.9}, {0.8, 0, 0.8, 0}, {0, 0, 0, 0.5}};
  const Subject s = given_gradients();
  TrainerOptions o;
  o.n = kN;
  o.loss.name = "output";
  o.optimizer = "sgd";
  o.hyperparameters = {{"lr", {0.1}}, {"dampening", {0.3}}, {"momentum", {0, 0.8, 0}}};
  const auto begin = start(s, kN, at::kDouble);
  Trainer trainer(forms(s), {{"x"}}, begin, o);
  for (int64_t t = 0; t < kSteps; ++t) {
    for (int64_t i = 0; i < kN; ++i)
      trainer.set_hyperparameter("momentum", i, momentum[size_t(i)][size_t(t / 5)]);
    trainer.step({.inputs = {{gradient(t)}}});
  }
  const auto got = trainer.weights();
  for (int64_t i = 0; i < kN; ++i) {
    Tensors own = own_weights(s, begin, i);
    for (size_t k = 0; k < 2; ++k) {
      own[k].requires_grad_();
      torch::optim::SGD theirs(std::vector<Tensor>{own[k]},
                               torch::optim::SGDOptions(0.1).dampening(0.3));
      auto& options = static_cast<torch::optim::SGDOptions&>(theirs.param_groups()[0].options());
      for (int64_t t = 0; t < kSteps; ++t) {
        options.momentum(momentum[size_t(i)][size_t(t / 5)]);
        const Tensor g = gradient(t)[i][0];
        own[k].mutable_grad() = (k == 0 ? g.slice(0, 0, 6).view({3, 2}) : g.slice(0, 6)).clone();
        theirs.step();
      }
      const Tensor off = (got.at(s.tensors[k].name)[i] - own[k]).abs().max();
      EXPECT_LE(off.item<double>(), 1e-12) << s.tensors[k].name << " of model " << i;
    }
  }
}

TEST(TrainOptimizers, AllClipAndFollowASchedule) {
  for (const Optimizer& o : optimizers())
    compare(
        o.name,
        {{"lr", {1e-2, 3e-3, 5e-2}}, {"weight_decay", {0.0, 0.1, 0.02}}, {"clip", {1.0, 0, 2.5}}},
        parse_schedule("cosine:0.1", 3, kSteps));
}

/// Some steps of a model with the hyperparameters `hyper`, as separate models take them.
Tensor parameter_after(const Optimizer& o, const std::vector<double>& hyper, bool by_lists) {
  Optimizer used = o;
  if (!by_lists) used.step_lists = nullptr;
  ListStep s{.hyper = hyper.data()};
  s.parameters = {random({5, 3}, at::kDouble, 1), random({7}, at::kDouble, 2)};
  for (const OptimizerState& state : o.state) {
    const int64_t with = o.index(state.only_with);
    const bool kept = with < 0 || hyper[static_cast<size_t>(with)] != 0;
    s.state.emplace_back();
    for (const Tensor& p : s.parameters)
      if (kept) s.state.back().push_back(at::zeros_like(p));
  }
  for (s.step = 1; s.step <= kSteps; ++s.step) {
    s.gradients.clear();
    for (const Tensor& p : s.parameters)
      s.gradients.push_back(random(p.sizes().vec(), at::kDouble, 50 + uint64_t(s.step)));
    list_step(used, s);
  }
  return at::cat({s.parameters[0].flatten(), s.parameters[1]});
}

TEST(TrainOptimizers, BaselinesOperatorsOnListsTakeTheSameSteps) {
  for (const Optimizer& o : optimizers())
    for (const double momentum : {0.0, 0.7}) {
      std::vector<double> hyper;
      for (const Hyperparameter& h : o.hyperparameters)
        hyper.push_back(h.name == "lr"             ? 0.01
                        : h.name == "weight_decay" ? 0.03
                        : h.name == "momentum"     ? momentum
                        : h.name == "dampening"    ? 0.2
                                                   : h.value);
      const Tensor formula = parameter_after(o, hyper, false),
                   lists = parameter_after(o, hyper, true);
      EXPECT_LE((formula - lists).abs().max().item<double>(), 1e-12)
          << o.name << ", momentum " << momentum;
    }
}

/// Beside p, whose gradient is what comes in, a parameter that nothing reads and one that is only
/// compared with a number.
Subject partly_reached() {
  return {"partly reached",
          {6},
          {weight("p", {3, 2}, 1.0), weight("unread", {5}, 1.0), weight("compared", {2}, 1.0)},
          [](const Tensor& x, const Tensors& w, bool) {
            const Tensor sign =
                at::where(w[2] > 0, at::full({}, 1.0, x.options()), at::full({}, 2.0, x.options()));
            return (x * w[0].flatten()).sum() + sign.sum() * x.sum();
          }};
}

TEST(TrainOptimizers, LeaveWhatTheLossDoesNotReachAsTorchDoes) {
  for (const Optimizer& optimizer : optimizers()) {
    SCOPED_TRACE(optimizer.name);
    const Subject s = partly_reached();
    TrainerOptions o;
    o.n = kN;
    o.loss.name = "output";
    o.optimizer = optimizer.name;
    o.hyperparameters = {
        {"lr", {1e-2, 3e-2, 5e-2}}, {"weight_decay", {0.3, 0.1, 0.2}}, {"ema", {0.9, 0, 0.7}}};
    if (optimizer.index("momentum") >= 0) o.hyperparameters["momentum"] = {0.9, 0.5, 0.0};
    const auto begin = start(s, kN, at::kDouble);
    Trainer trainer(forms(s), {{"x"}}, begin, o);
    for (int64_t t = 0; t < 5; ++t)
      trainer.step({.inputs = {{gradient(t).slice(2, 0, 6).contiguous()}}});
    const auto got = trainer.weights();
    EXPECT_FALSE(got.at("p").equal(begin.at("p").tensor));
    for (const char* name : {"unread", "compared"})
      EXPECT_TRUE(got.at(name).equal(begin.at(name).tensor)) << name;
    if (optimizer.name == "lion") continue;  // torch.optim has none
    Tensor unread = begin.at("unread").tensor[0].clone().requires_grad_();
    torch_optimizer(optimizer.name, unread, o.hyperparameters, 0, true)->step();
    EXPECT_TRUE(unread.equal(begin.at("unread").tensor[0]));
  }
}

TEST(TrainOptimizers, WhatTheLossDoesNotReachHasGradientsOfZero) {
  const Subject s = partly_reached();
  TrainerOptions o;
  o.n = kN;
  o.loss.name = "output";
  Trainer trainer(forms(s), {{"x"}}, start(s, kN, at::kDouble), o);
  const Batch b{.inputs = {{gradient(0).slice(2, 0, 6).contiguous()}}};
  const auto gradients = trainer.gradients(b);
  EXPECT_TRUE(gradients.at("p").flatten(1).allclose(b.inputs[0].values.select(1, 0)));
  for (const char* name : {"unread", "compared"})
    EXPECT_TRUE(gradients.at(name).equal(at::zeros_like(gradients.at(name)))) << name;
  EXPECT_TRUE(trainer.check(b).pass);
}

TEST(TrainSchedules, AreThoseOfTorch) {
  const auto compare_factors = [](const Schedule& s, const std::vector<double>& expected) {
    for (size_t t = 0; t < expected.size(); ++t)
      EXPECT_NEAR(s.factor(static_cast<int64_t>(t)), expected[t], 1e-15) << s.name << " " << t;
  };
  // What PyTorch 2.11's schedulers give for lr = 1, stepped after every step.
  compare_factors(parse_schedule("cosine:0.1", 0, 7),
                  {1, 0.95543599055608852, 0.83057041083643002, 0.65013442028034141,
                   0.44986557971965857, 0.26942958916356996, 0.14456400944391146, 0.1});
  compare_factors(parse_schedule("linear", 0, 7),
                  {1, 0.85714285714285721, 0.71428571428571441, 0.57142857142857151,
                   0.4285714285714286, 0.28571428571428575, 0.14285714285714288, 0});
  compare_factors(parse_schedule("step:3,0.5", 0, 0), {1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25});
  compare_factors(parse_schedule("onecycle", 0, 10),
                  {0.04, 0.52, 1, 0.95048463201347366, 0.81174565394976306, 0.61126202193628931,
                   0.38874197806371075, 0.18825834605023697, 0.049519367986526286, 4e-06});
  compare_factors(parse_schedule("cosine", 3, 9), {1.0 / 3, 2.0 / 3, 1, 1, 0.93301270189221941,
                                                   0.75, 0.5, 0.25, 0.066987298107780646, 0});
  compare_factors(parse_schedule("constant", 2, 0), {0.5, 1, 1, 1});
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

TEST(TrainSchedules, RefuseWhatTheyCannotDo) {
  const auto parsed = [](const char* text, int64_t warmup, int64_t steps) {
    return refusal([=] { parse_schedule(text, warmup, steps); });
  };
  EXPECT_EQ(parsed("cosin", 0, 5),
            "[train] schedule: got cosin, expected constant, cosine, linear, step:EVERY,GAMMA or "
            "onecycle; try cosine");
  EXPECT_EQ(parsed("step:0,0.5", 0, 5),
            "[train] schedule step: got every 0 and gamma 0.5, expected both above 0; try "
            "step:1000,0.5");
  EXPECT_EQ(parsed("cosine:2", 0, 5),
            "[train] schedule cosine: got 2, expected a share of lr from 0 to 1; try cosine:0.1");
  EXPECT_EQ(parsed("linear", 0, 0),
            "[train] schedule linear: got no number of steps, expected how long the run is; try "
            "steps");
  EXPECT_EQ(parsed("cosine", 5, 5),
            "[train] warmup: got 5, expected fewer than the 5 steps; try 0");
  EXPECT_EQ(parsed("onecycle", 1, 5),
            "[train] warmup: got 1 with onecycle, expected 0; try without, it warms up by itself");
  EXPECT_EQ(parsed("step:a,0.5", 0, 5),
            "[train] schedule step:a,0.5: got a, expected a number; try cosine:0.1 or "
            "step:1000,0.5");
  EXPECT_EQ(parsed("linear:1", 0, 5),
            "[train] schedule: got linear:1, expected no number behind linear; try linear");
}

TEST(TrainOptimizers, WholeTrajectoriesAreThoseOfSeparateModels) {
  // Networks without parameters whose gradient is zero but for rounding.
  for (const Subject& s : {mlp(), lenet(), lstm()})
    for (const char* name : {"sgd", "adamw"}) {
      SCOPED_TRACE(s.name + " " + name);
      const Values v{{"lr", {1e-2, 3e-3, 2e-2}}, {"weight_decay", {0.0, 0.1, 0.02}}};
      TrainerOptions o;
      o.n = kN;
      o.optimizer = name;
      o.hyperparameters = v;
      const auto begin = start(s, kN, at::kDouble);
      Trainer trainer(forms(s), {{"x"}}, begin, o);
      std::vector<Tensors> own;
      std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
      for (int64_t i = 0; i < kN; ++i) {
        own.push_back(own_weights(s, begin, i));
        for (Tensor& t : own.back())
          optimizers.push_back(torch_optimizer(name, t.requires_grad_(), v, i, true));
      }
      for (int64_t t = 0; t < kSteps; ++t) {
        const Batch b = batch(s, kN, 6, at::kDouble, 50 + uint64_t(t));
        const StepResult result = trainer.step(b);
        for (int64_t i = 0; i < kN; ++i) {
          const Tensor y = s.forward(b.inputs[0].values[i], own[size_t(i)], true);
          const Tensor loss = at::cross_entropy_loss(y, b.target.values[i]);
          EXPECT_NEAR(result.losses[i].item<double>(), loss.item<double>(), 1e-9);
          for (Tensor& w : own[size_t(i)]) w.mutable_grad() = Tensor();
          loss.backward();
        }
        for (auto& each : optimizers) each->step();
      }
      const auto got = trainer.weights();
      for (int64_t i = 0; i < kN; ++i)
        for (size_t k = 0; k < s.tensors.size(); ++k)
          EXPECT_LE((got.at(s.tensors[k].name)[i] - own[size_t(i)][k]).abs().max().item<double>(),
                    1e-9)
              << s.tensors[k].name;
    }
}

}  // namespace
}  // namespace wide::optimizers_test
