#include "engine/widen/derivative.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/measure/baselines.h"
#include "engine/widen/gradients.h"

namespace wide::derivative_test {
namespace {

constexpr int64_t kN = 3;

/// Convolution, batch norm in training, a linear layer, and an integer input.
Network conv_network() {
  Network net;
  net.name = "conv";
  net.training = true;
  net.tensors = {{"x", Role::input, {5, 3, 6, 6}},
                 {"index", Role::input, {4}, at::kLong, Fill::integers, 5.0},
                 {"conv", Role::parameter, {4, 3, 3, 3}, at::kFloat, Fill::normal, 0.3},
                 {"gamma", Role::parameter, {4}, at::kFloat, Fill::near_one},
                 {"beta", Role::parameter, {4}},
                 {"fc", Role::parameter, {2, 36}, at::kFloat, Fill::normal, 0.2},
                 {"mean", Role::buffer, {4}},
                 {"var", Role::buffer, {4}, at::kFloat, Fill::positive}};
  net.forward = [](const Tensors& t) -> Tensors {
    Tensor h = at::conv2d(t[0], t[2], {}, 1, 1);
    h = at::batch_norm(h, t[3], t[4], t[6], t[7], true, 0.1, 1e-5, false);
    h = at::max_pool2d(at::relu(h), 2).flatten(1);
    return {at::linear(h, t[5]).index_select(0, t[1])};
  };
  return net;
}

Network mlp_network() {
  Network net;
  net.name = "mlp";
  net.tensors = {{"x", Role::input, {7, 6}},
                 {"w", Role::parameter, {5, 6}},
                 {"b", Role::parameter, {5}},
                 {"v", Role::parameter, {2, 5}}};
  net.forward = [](const Tensors& t) -> Tensors {
    return {at::linear(at::tanh(at::linear(t[0], t[1], t[2])), t[3])};
  };
  return net;
}

struct Subject {
  Network network;
  Ensemble ensemble;
  Program single;

  Subject(const Network& inner, const std::string& phase, const std::string& optimizer = "adam",
          int64_t n = kN) {
    const Program plain = record_single(inner, generate(inner, 1, at::kFloat, c10::kCPU, 7));
    network = phase_network(inner, plain, phase, optimizer);
    ensemble = generate(network, n, at::kFloat, c10::kCPU, 7);
    single = record_single(network, ensemble);
  }
  Tensors pick(bool inputs) const {
    Tensors out;
    for (const size_t i : network.indices(inputs)) out.push_back(ensemble.tensors[i]);
    return out;
  }
  size_t at(const std::string& name) const {
    for (size_t i = 0; i < network.tensors.size(); ++i)
      if (network.tensors[i].name == name) return i;
    ADD_FAILURE() << name;
    return 0;
  }
};

/// Gradients of one model by plain autograd in float64, by the names in `of`.
Tensors oracle(const Network& inner, const Subject& s, int64_t model,
               const std::vector<std::string>& of) {
  const Tensors own = s.ensemble.model(model);
  Tensors tensors, leaves;
  for (size_t k = 0; k < inner.tensors.size(); ++k) {
    Tensor t = own[k].is_floating_point() ? own[k].to(at::kDouble) : own[k];
    tensors.push_back(t.clone());
  }
  for (const std::string& name : of) leaves.push_back(tensors[s.at(name)].requires_grad_());
  const Tensor loss = (inner.forward(tensors)[0] * own[s.at("cotangent.0")].to(at::kDouble)).sum();
  return torch::autograd::grad({loss}, leaves);
}

double error(const Tensor& got, const Tensor& expected) {
  return (got.to(at::kDouble) - expected).abs().max().item<double>() /
         expected.abs().max().item<double>();
}

TEST(Derivative, WideGradientsAreThoseOfSeparateModels) {
  struct Given {
    Network network;
    std::vector<std::string> of;
  };
  for (const Given& given : {Given{conv_network(), {"x", "conv", "gamma", "beta", "fc"}},
                             Given{mlp_network(), {"x", "w", "b", "v"}}}) {
    const Subject s(given.network, "backward");
    const auto model = compile(s.network, s.ensemble);
    EXPECT_EQ(model->coverage().counts().at(Way::per_model), 0);
    const Tensors got = model->run(s.pick(true));
    for (int64_t i = 0; i < kN; ++i) {
      const Tensors expected = oracle(given.network, s, i, given.of);
      for (size_t k = 0; k < given.of.size(); ++k)
        EXPECT_LT(error(got[k][i], expected[k]), 2e-5) << given.network.name << " " << given.of[k];
    }
    const Correctness c =
        check(s.network, s.single, s.ensemble, as_function(*model, s.network), 2e-4);
    EXPECT_TRUE(c.pass) << c.failure;
    EXPECT_TRUE(c.isolated && c.ordered);
  }
}

TEST(Derivative, AStepIsThatOfTheOptimiserWithEachModelsOwnRate) {
  const Network inner = conv_network();
  const std::vector<std::string> of{"conv", "gamma", "beta", "fc"};
  for (const std::string optimizer : {"sgd", "adam"}) {
    const Subject s(inner, "step", optimizer);
    const auto model = compile(s.network, s.ensemble);
    const Tensors got = model->run(s.pick(true));
    for (int64_t i = 0; i < kN; ++i) {
      const Tensors gradients = oracle(inner, s, i, of);
      const auto own = [&](const std::string& name) {
        return s.ensemble.tensors[s.at(name)][i].to(at::kDouble);
      };
      for (size_t k = 0; k < of.size(); ++k) {
        const Tensor p = own(of[k]), g = gradients[k], lr = own("learning_rate");
        Tensor expected = p - lr * g;
        if (optimizer == "adam") {
          const Tensor m = 0.9 * own("exp_avg." + of[k]) + 0.1 * g;
          const Tensor v = 0.999 * own("exp_avg_sq." + of[k]) + 0.001 * g * g;
          expected = p - lr * m / (v.sqrt() + 1e-8);
          EXPECT_LT(error(got[of.size() + k][i], m), 2e-5);
          EXPECT_LT(error(got[2 * of.size() + k][i], v), 2e-5);
        }
        EXPECT_LT(error(got[k][i] - p, expected - p), 2e-3) << of[k];  // the step itself
      }
    }
    const Correctness c =
        check(s.network, s.single, s.ensemble, as_function(*model, s.network), 2e-4);
    EXPECT_TRUE(c.pass) << c.failure;
  }
}

TEST(Derivative, RepeatedStepsFeedStateBack) {
  const Network inner = mlp_network();
  const Subject s(inner, "step");
  const auto model = compile(s.network, s.ensemble);
  Tensors inputs = s.pick(true);
  const auto call = repeated_call(*model, s.network, inputs);
  for (int k = 0; k < 3; ++k) call();
  // What a fourth call starts from is what three steps by hand give.
  Ensemble by_hand = s.ensemble;
  for (int k = 0; k < 3; ++k) {
    const Tensors next = separate(s.single, by_hand);
    for (const auto& [output, tensor] : s.network.derivative->feedback())
      by_hand.tensors[tensor] = next[output];
  }
  const Tensors expected = separate(s.single, by_hand);
  Ensemble last = s.ensemble;
  Tensors got;
  {
    // The same three steps through the model, one at a time.
    Tensors state = inputs;
    const auto at = s.network.indices(true);
    for (int k = 0; k < 4; ++k) {
      got = model->run(state);
      for (const auto& [output, tensor] : s.network.derivative->feedback())
        state[static_cast<size_t>(std::find(at.begin(), at.end(), tensor) - at.begin())] =
            got[output].clone();
    }
  }
  EXPECT_LT(max_relative_error(got, expected), 1e-4);
  EXPECT_TRUE(inputs[0].equal(s.ensemble.tensors[0]));
}

TEST(Derivative, BaselinesGiveTheSameAnswers) {
  for (const std::string phase : {"backward", "step"}) {
    const Subject s(mlp_network(), phase);
    const Tensors expected = in_double(s.single, s.ensemble);
    for (const Baseline& baseline : baselines(s.network, s.ensemble, 2)) {
      ASSERT_EQ(baseline.unavailable, "") << phase << " " << baseline.name;
      baseline.call();
      baseline.call();
      EXPECT_LT(max_relative_error(baseline.run(), expected), 1e-4) << phase << baseline.name;
    }
  }
}

TEST(Derivative, EveryOptimizersBaselineGivesTheSameAnswers) {
  for (const Optimizer& optimizer : optimizers()) {
    const Subject s(mlp_network(), "step", optimizer.name);
    const Tensors expected = in_double(s.single, s.ensemble);
    const auto model = compile(s.network, s.ensemble);
    EXPECT_LT(max_relative_error(model->run(s.pick(true)), expected), 1e-5) << optimizer.name;
    for (const Baseline& baseline : baselines(s.network, s.ensemble, 2)) {
      ASSERT_EQ(baseline.unavailable, "") << optimizer.name << " " << baseline.name;
      EXPECT_LT(max_relative_error(baseline.run(), expected), 1e-5)
          << optimizer.name << " " << baseline.name;
    }
  }
}

/// Its layer of oneDNN would be differentiated for all of its results or none.
TEST(Derivative, AnLstmOneModelAtATime) {
  constexpr int64_t kT = 3, kB = 2, kI = 5, kH = 4;
  Network net;
  net.name = "lstm";
  net.tensors = {{"x", Role::input, {kT, kB, kI}},
                 {"w_ih", Role::parameter, {4 * kH, kI}, at::kFloat, Fill::normal, 0.3},
                 {"w_hh", Role::parameter, {4 * kH, kH}, at::kFloat, Fill::normal, 0.3},
                 {"b_ih", Role::parameter, {4 * kH}},
                 {"b_hh", Role::parameter, {4 * kH}}};
  net.forward = [](const Tensors& t) -> Tensors {
    const Tensor zero = at::zeros({1, kB, kH}, t[0].options());
    return {std::get<0>(
        at::lstm(t[0], {zero, zero}, {t[1], t[2], t[3], t[4]}, true, 1, 0.0, true, false, false))};
  };
  for (const std::string phase : {"backward", "step"}) {
    const Subject s(net, phase);
    CompileOptions options;
    options.widen.force = {{"*", "per_model"}};
    const auto model = compile(s.network, s.ensemble, options);
    EXPECT_LT(max_relative_error(model->run(s.pick(true)), in_double(s.single, s.ensemble)), 1e-5);
  }
}

TEST(Derivative, SaysWhatCannotBeDifferentiated) {
  Network net;
  net.name = "lookup";
  net.tensors = {{"index", Role::input, {4}, at::kLong, Fill::integers, 5.0}};
  net.forward = [](const Tensors& t) -> Tensors { return {t[0] + 1}; };
  const Program plain = record_single(net, generate(net, 1, at::kFloat, c10::kCPU, 7));
  try {
    phase_network(net, plain, "step");
    FAIL();
  } catch (const Unsupported& e) {
    EXPECT_STREQ(e.what(),
                 "[lookup] phase step: got no parameters, expected something to differentiate; try "
                 "--phase forward");
  }
  Subject s(mlp_network(), "backward");
  s.ensemble.tensors[1] = s.ensemble.tensors[1][0].clone();
  s.ensemble.shared[1] = true;
  try {
    compile(s.network, s.ensemble);
    FAIL();
  } catch (const Unsupported& e) {
    EXPECT_STREQ(e.what(),
                 "[mlp] shared tensor w: got one for all models, expected one for each, so that "
                 "gradients are its own; try --phase forward");
  }
}

/// An operator that has a gradient, but not for these arguments.
class Refuses : public torch::autograd::Function<Refuses> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const std::string& why) {
    context->saved_data["why"] = why;
    return x * 2;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors&) {
    TORCH_CHECK(false, context->saved_data["why"].toStringRef());
  }
};

TEST(Derivative, WhatAnOperatorOfADeviceRefusesIsUnsupported) {
  const auto differentiate = [](const std::string& why) {
    forward_and_back("lstm", {{at::ones({3, 2}), true}}, {0}, {at::ones({3, 2})},
                     [&](const std::vector<WideValue>& bound) -> std::vector<WideValue> {
                       return {{Refuses::apply(bound[0].tensor, why), true}};
                     });
  };
  for (const char* why : {"cudnn RNN backward can only be called in training mode",
                          "LSE is not correctly aligned (strideH)"}) {
    try {
      differentiate(why);
      FAIL() << why;
    } catch (const Unsupported& e) {
      EXPECT_EQ(std::string(e.what()),
                fmt::format("[lstm] gradients: got {}, expected operators with a gradient; try "
                            "another network or strategy",
                            why));
    }
  }
  EXPECT_THROW(differentiate("an illegal memory access"), c10::Error);
}

TEST(Derivative, OneModelToo) {
  const Subject s(mlp_network(), "step", "sgd", 1);
  const auto model = compile(s.network, s.ensemble);
  EXPECT_LT(max_relative_error(model->run(s.pick(true)), in_double(s.single, s.ensemble)), 1e-5);
}

}  // namespace
}  // namespace wide::derivative_test
