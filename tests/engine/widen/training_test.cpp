#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/record/record.h"
#include "engine/widen/widen.h"

namespace wide::training_test {
namespace {

constexpr int64_t kN = 3, kBatch = 5, kClasses = 4;
const auto kReal = at::TensorOptions().dtype(at::kDouble);

/// Tensors: conv weight, conv bias, bn weight, bn bias, fc weight, fc bias | mean, var | x, y.
Tensors forward(const Tensors& t) {
  Tensor h = at::conv2d(t[8], t[0], t[1], 1, 1);
  h = at::batch_norm(h, t[2], t[3], t[6], t[7], true, 0.1, 1e-5, false);
  h = at::dropout(at::max_pool2d(at::relu_(h), 2).flatten(1), 0.0, true);
  return {at::cross_entropy_loss(at::linear(h, t[4], t[5]), t[9])};
}

/// Adam as torch.optim.Adam has it (betas 0.9 and 0.999, eps 1e-8), no weight decay; `lr`
/// broadcasts against the parameter.
struct Adam {
  Tensor parameter, m, v;
  void step(const Tensor& gradient, const Tensor& lr, const Tensor& t) {
    m = m * 0.9 + gradient * 0.1;
    v = v * 0.999 + gradient * gradient * 0.001;
    const Tensor c1 = 1 - at::pow(0.9, t), c2 = 1 - at::pow(0.999, t);
    parameter = parameter - lr * (m / c1) / ((v / c2).sqrt() + 1e-8);
  }
};

TEST(Training, WideAdamStepsReplayAndEqualSeparateRuns) {
  at::manual_seed(5);
  const Tensors parameters{
      at::randn({kN, 4, 3, 3, 3}, kReal) * 0.3,   at::randn({kN, 4}, kReal),
      1 + at::randn({kN, 4}, kReal) * 0.1,        at::randn({kN, 4}, kReal),
      at::randn({kN, kClasses, 36}, kReal) * 0.2, at::randn({kN, kClasses}, kReal)};
  const Tensors buffers{at::randn({kN, 4}, kReal) * 0.1, 1 + at::rand({kN, 4}, kReal)};
  const Tensor lr = at::tensor({1e-2, 2e-2, 5e-3}, kReal);
  auto batch = [] {
    return std::pair{at::randn({kN, kBatch, 3, 6, 6}, kReal),
                     at::randint(0, kClasses, {kN, kBatch}, at::kLong)};
  };

  // Program(1) of the forward pass, on model 0.
  auto [x0, y0] = batch();
  std::vector<Binding> one;
  for (const Tensor& t : parameters) one.push_back({"p", Role::parameter, t[0].contiguous()});
  for (const Tensor& t : buffers) one.push_back({"b", Role::buffer, t[0].contiguous()});
  one.push_back({"x", Role::input, x0[0].contiguous()});
  one.push_back({"y", Role::input, y0[0].contiguous()});
  Program single;
  {
    at::NoGradGuard no_grad;
    single = record(one, forward);
  }
  ASSERT_EQ(single.updates.size(), 2U);

  // The whole wide step: forward, backward, Adam. State: parameters, buffers, m, v, then t.
  Tensors state = parameters;
  state.insert(state.end(), buffers.begin(), buffers.end());
  for (int k = 0; k < 2; ++k)
    for (const Tensor& t : parameters) state.push_back(at::zeros_like(t));
  state.push_back(at::ones({}, kReal));
  std::vector<Binding> all;
  for (size_t i = 0; i < state.size(); ++i) {
    Tensor t = state[i].clone();
    if (i < 6) t.requires_grad_();
    all.push_back({"s", Role::input, t, i + 1 < state.size()});
  }
  all.push_back({"x", Role::input, x0, true});
  all.push_back({"y", Role::input, y0, true});
  Coverage coverage;
  const Program step = record(
      all,
      [&](const Tensors& t) {
        std::vector<WideValue> bound;
        for (size_t i = 0; i < 8; ++i) bound.push_back({t[i], true});
        bound.push_back({t[21], true});
        bound.push_back({t[22], true});
        const auto out = evaluate_wide(single, kN, bound, {}, &coverage);
        const Tensors of(t.begin(), t.begin() + 6);
        const auto gradients = torch::autograd::grad({out[0].tensor.sum()}, of);
        at::NoGradGuard no_grad;
        Tensors next(t.begin(), t.begin() + 21);
        for (size_t i = 0; i < 6; ++i) {
          Sizes shape(static_cast<size_t>(t[i].dim()), 1);
          shape[0] = kN;
          Adam adam{t[i], t[8 + i], t[14 + i]};
          adam.step(gradients[i], lr.view(shape), t[20]);
          next[i] = adam.parameter;
          next[8 + i] = adam.m;
          next[14 + i] = adam.v;
        }
        next[6] = out[1].tensor;
        next[7] = out[2].tensor;
        next[20] = t[20] + 1;
        return next;
      },
      kN);
  EXPECT_EQ(coverage.counts().at(Way::per_model), 0);
  for (const Node& node : step.nodes) EXPECT_FALSE(node.op.schema().is_mutable()) << node.name();

  // N separate runs, by plain autograd.
  std::vector<std::vector<Adam>> separate(kN);
  std::vector<Tensors> statistics(kN);
  for (int64_t i = 0; i < kN; ++i) {
    for (const Tensor& t : parameters)
      separate[i].push_back({t[i].clone(), at::zeros_like(t[i]), at::zeros_like(t[i])});
    for (const Tensor& t : buffers) statistics[i].push_back(t[i].clone());
  }
  for (int s = 1; s <= 3; ++s) {
    auto [x, y] = batch();
    Tensors bound = state;
    bound.push_back(x);
    bound.push_back(y);
    {
      at::NoGradGuard no_grad;
      state = interpret(step, bound);
    }
    for (int64_t i = 0; i < kN; ++i) {
      Tensors t;
      for (Adam& a : separate[i]) t.push_back(a.parameter.detach().requires_grad_());
      const Tensors of = t;
      t.insert(t.end(), statistics[i].begin(), statistics[i].end());  // changed in place
      t.push_back(x[i]);
      t.push_back(y[i]);
      const auto gradients = torch::autograd::grad({forward(t)[0]}, of);
      at::NoGradGuard no_grad;
      for (size_t k = 0; k < 6; ++k) {
        separate[i][k].parameter = of[k].detach();
        separate[i][k].step(gradients[k], lr[i], at::full({}, double(s), kReal));
        EXPECT_LT((separate[i][k].parameter - state[k][i]).abs().max().item<double>(), 1e-9)
            << "step " << s << " model " << i << " parameter " << k;
      }
      for (size_t k = 0; k < 2; ++k)
        EXPECT_LT((statistics[i][k] - state[6 + k][i]).abs().max().item<double>(), 1e-9)
            << "step " << s << " model " << i << " statistic " << k;
    }
  }
  // What the recordings were given is as it was.
  for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(one[i].tensor.equal(parameters[i][0]));
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(one[6 + i].tensor.equal(buffers[i][0]));
}

}  // namespace
}  // namespace wide::training_test
