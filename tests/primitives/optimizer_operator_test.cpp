#include "engine/train/optimizer/optimizer_operator.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/train/optimizer/tensor_step.h"

namespace wide::optimizer_operator_test {
namespace {

/// AdamW as its paper and torch.optim.AdamW have it, one model in float64.
Tensors adamw(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v, const Tensor& h,
              int64_t step) {
  const auto value = [&](int64_t k) { return h[k].item<double>(); };
  const double lr = value(0), decay = value(1), beta1 = value(2), beta2 = value(3), eps = value(4);
  const Tensor first = beta1 * m + (1 - beta1) * g, second = beta2 * v + (1 - beta2) * g * g;
  const Tensor root = (second / (1 - std::pow(beta2, step))).sqrt() + eps;
  return {p * (1 - lr * decay) - lr * (first / (1 - std::pow(beta1, step))) / root, first, second};
}

/// Each model's numbers are stepped in blocks; one and a part of the next here.
TEST(OptimizerOperator, EveryBlockOfEveryModel) {
  constexpr int64_t kModels = 3, kRows = 41, kColumns = 1009, kStep = 5;
  at::manual_seed(3);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const Tensor hyper = at::tensor({1e-3, 1e-2, 0.9, 0.999, 1e-8, 2e-2, 0.0, 0.8, 0.99, 1e-6, 3e-4,
                                   0.3, 0.95, 0.9, 1e-8},
                                  options)
                           .view({kModels, 5});
  const Sizes sizes{kModels, kRows, kColumns};
  const Tensor p = at::randn(sizes, options), g = at::randn(sizes, options),
               m = at::randn(sizes, options), v = at::rand(sizes, options);
  Tensors expected{at::empty_like(p), at::empty_like(p), at::empty_like(p)};
  for (int64_t i = 0; i < kModels; ++i) {
    const Tensors own = adamw(p[i], g[i], m[i], v[i], hyper[i], kStep);
    for (size_t k = 0; k < own.size(); ++k) expected[k][i].copy_(own[k]);
  }
  for (const auto& [type, tolerance] :
       {std::pair(at::kDouble, 1e-12), {at::kFloat, 2e-6}, {at::kBFloat16, 2e-2}}) {
    const Tensors made = optimizer_step(optimizer("adamw"), p.to(type), g.to(type),
                                        {m.to(type), v.to(type)}, hyper, kStep);
    ASSERT_EQ(made.size(), expected.size());
    for (size_t k = 0; k < made.size(); ++k) {
      EXPECT_EQ(made[k].scalar_type(), type);
      const double error = (made[k].to(at::kDouble) - expected[k]).abs().max().item<double>();
      EXPECT_LT(error, tolerance * expected[k].abs().max().item<double>()) << type << " " << k;
    }
  }
}

/// What is given stays as it is, also state that needs no conversion where the parameter does.
TEST(OptimizerOperator, LeavesItsArgumentsAlone) {
  const Tensor hyper = at::tensor({1e-3, 1e-2, 0.9, 0.999, 1e-8}, at::kDouble);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensor p = at::randn({7}).to(type), g = at::randn({7}).to(type), m = at::randn({7}),
                 v = at::rand({7});
    const Tensors before{p.clone(), g.clone(), m.clone(), v.clone()};
    const Tensors made = optimizer_step(optimizer("adamw"), p, g, {m, v}, hyper, 3);
    EXPECT_FALSE(made[1].equal(m));
    const Tensors after{p, g, m, v};
    for (size_t k = 0; k < after.size(); ++k) EXPECT_TRUE(after[k].equal(before[k])) << k;
  }
}

/// For devices: the formula of every optimiser by operators, of models whose hyperparameters
/// differ, at the first step and later, with all state and with what is always kept.
TEST(OptimizerOperator, StepsOfTensorsAreTheFormulas) {
  constexpr int64_t kModels = 3;
  at::manual_seed(5);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  for (const Optimizer& optimizer : optimizers()) {
    Tensors columns;
    for (const Hyperparameter& h : optimizer.hyperparameters) {
      const double share = 1 - 0.1 * static_cast<double>(columns.size());
      columns.push_back(h.name == "nesterov" ? at::tensor({1.0, 0.0, 0.0}, options)
                                             : at::tensor({0.9, 0.5, 0.0}, options) * share);
    }
    const Tensor hyper = at::stack(columns, -1);
    const int64_t lr = optimizer.index("lr"), eps = optimizer.index("eps");
    hyper.select(1, lr).copy_(at::tensor({0.1, 0.2, 0.3}, options));
    if (eps >= 0) hyper.select(1, eps).copy_(at::tensor({1e-3, 1e-2, 1e-8}, options));
    for (const int64_t step : {1, 4})
      for (const bool all : {true, false}) {
        SCOPED_TRACE(fmt::format("{} step {} {}", optimizer.name, step, all));
        const Tensor p = at::randn({kModels, 5, 7}, options),
                     g = at::randn({kModels, 5, 7}, options);
        Tensors state;
        for (const OptimizerState& kept : optimizer.state)
          if (all || kept.only_with.empty()) state.push_back(at::rand({kModels, 5, 7}, options));
        const Tensors made = optimizer.step_tensors(
            {.parameter = p, .gradient = g, .state = state, .hyper = hyper, .step = step});
        ASSERT_EQ(made.size(), 1 + state.size());
        for (int64_t i = 0; i < kModels; ++i) {
          Tensors own{p[i].clone()};
          for (const Tensor& t : state) own.push_back(t[i].clone());
          double* blocks[3] = {};
          for (size_t k = 1; k < own.size(); ++k) blocks[k - 1] = own[k].mutable_data_ptr<double>();
          optimizer.step_f64({.count = p[i].numel(),
                              .parameter = own[0].mutable_data_ptr<double>(),
                              .gradient = g[i].const_data_ptr<double>(),
                              .hyper = hyper[i].const_data_ptr<double>(),
                              .step = step,
                              .state = blocks});
          for (size_t k = 0; k < own.size(); ++k)
            EXPECT_LT((made[k][i] - own[k]).abs().max().item<double>(), 1e-12) << i << " " << k;
        }
      }
  }
}

}  // namespace
}  // namespace wide::optimizer_operator_test
