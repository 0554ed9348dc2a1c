#include "engine/check/check.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/check/check_detail.h"
#include "engine/check/distribution.h"

namespace wide::check_test {
namespace {

constexpr double kTolerance = 2e-4;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A network with its ensemble and Program(1), checked against functions written by hand.
struct Subject {
  Network network;
  Ensemble ensemble;
  Program single;

  Subject(Network net, int64_t n) : network(std::move(net)) {
    network.name = "subject";
    ensemble = generate(network, n, at::kFloat, c10::kCPU, 11);
    const Tensors first = ensemble.model(0);
    std::vector<Binding> bindings;
    for (size_t k = 0; k < first.size(); ++k)
      bindings.push_back({network.tensors[k].name, network.tensors[k].role, first[k]});
    single = record(bindings, network.forward);
  }
  Correctness check(const std::function<Tensors(const Tensors&)>& wide, bool shared = false) const {
    const WideFunction candidate = [&](const Ensemble& e) { return wide(e.tensors); };
    return wide::check(network, single, ensemble, candidate, kTolerance, shared);
  }
};

::testing::AssertionResult passes(const Correctness& c) {
  if (c.pass && c.failure.empty() && c.isolated && c.ordered) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "'" << c.failure << "' isolated " << c.isolated << " ordered " << c.ordered;
}

::testing::AssertionResult fails(const Correctness& c, const std::string& text) {
  if (c.pass) return ::testing::AssertionFailure() << "passed";
  if (c.failure.find(text) == std::string::npos)
    return ::testing::AssertionFailure() << "failed otherwise: '" << c.failure << "'";
  return ::testing::AssertionSuccess();
}

// -------------------------------------------------------------------------------- linear

Network linear_network() {
  Network net;
  net.tensors = {{"x", Role::input, {4, 6}},
                 {"weight", Role::parameter, {6, 6}},
                 {"bias", Role::parameter, {6}}};
  net.forward = [](const Tensors& t) -> Tensors { return {at::linear(t[0], t[1], t[2])}; };
  return net;
}

Tensor wide_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return at::baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2));
}

TEST(Check, BelievesARightLinear) {
  for (const int64_t n : {1, 2, 3, 7}) {
    const Subject subject(linear_network(), n);
    const auto result =
        subject.check([](const Tensors& t) -> Tensors { return {wide_linear(t[0], t[1], t[2])}; });
    EXPECT_TRUE(passes(result)) << n;
    EXPECT_LT(result.max_rel, 1e-5);
    EXPECT_LT(result.eager_max_rel, 1e-5);
    EXPECT_GT(result.eager_max_rel, 0);
    EXPECT_EQ(result.tolerance, kTolerance);
    EXPECT_EQ(result.note, "");
  }
}

TEST(Check, FindsPlantsInALinear) {
  const Subject subject(linear_network(), 5);
  const auto wrong_weight = subject.check(
      [](const Tensors& t) -> Tensors { return {wide_linear(t[0], t[1].roll(1, 0), t[2])}; });
  EXPECT_TRUE(fails(wrong_weight, "output 0 of model "));
  EXPECT_TRUE(fails(wrong_weight, "relative error "));
  EXPECT_TRUE(fails(wrong_weight, ", tolerance 2e-04"));
  EXPECT_FALSE(wrong_weight.isolated);

  const auto wrong_axis = subject.check(
      [](const Tensors& t) -> Tensors { return {wide_linear(t[0], t[1].transpose(1, 2), t[2])}; });
  EXPECT_TRUE(fails(wrong_axis, "output 0 of model "));
  EXPECT_TRUE(wrong_axis.isolated);
  EXPECT_TRUE(wrong_axis.ordered);

  const auto first_bias = subject.check([](const Tensors& t) -> Tensors {
    return {wide_linear(t[0], t[1], t[2].narrow(0, 0, 1).expand_as(t[2]))};
  });
  EXPECT_TRUE(fails(first_bias, "output 0 of model "));
  EXPECT_FALSE(first_bias.isolated);
}

TEST(Check, FindsALeakFarBelowTheTolerance) {
  const Subject subject(linear_network(), 5);
  const auto mean = subject.check([](const Tensors& t) -> Tensors {
    const Tensor y = wide_linear(t[0], t[1], t[2]);
    return {y + 1e-7 * y.mean(0, true)};
  });
  EXPECT_LT(mean.max_rel, kTolerance);
  EXPECT_FALSE(mean.isolated);
  EXPECT_TRUE(fails(mean, "not isolated, with NaN in model 0: output 0 of model "));
  EXPECT_TRUE(fails(mean, "values not finite"));
}

TEST(Check, FindsStateKeptBetweenCalls) {
  const Subject subject(linear_network(), 5);
  Tensor first_weight;
  const auto stale = subject.check([&](const Tensors& t) -> Tensors {
    if (!first_weight.defined()) first_weight = t[1];
    return {wide_linear(t[0], first_weight, t[2])};
  });
  EXPECT_TRUE(fails(stale, "models permuted, output 0 of model "));
  EXPECT_FALSE(stale.ordered);

  int calls = 0;
  const auto worn = subject.check([&](const Tensors& t) -> Tensors {
    // The first, three poisoned, permuted, and then the first again.
    return {wide_linear(t[0], t[1], t[2]) + (++calls == 6 ? 1.0 : 0.0)};
  });
  EXPECT_EQ(calls, 6);
  EXPECT_TRUE(fails(worn, "run again, output 0 of model "));

  calls = 0;
  const WideFunction counted = [&](const Ensemble& e) -> Tensors {
    ++calls;
    return {wide_linear(e.tensors[0], e.tensors[1], e.tensors[2])};
  };
  EXPECT_TRUE(passes(wide::check(subject.network, subject.single, subject.ensemble, counted,
                                 kTolerance, false, nullptr, /*run_again=*/false)));
  EXPECT_EQ(calls, 5);
}

TEST(Check, FindsALeakIntoAResultThatIsWrittenAgain) {
  const Subject subject(linear_network(), 5);
  Tensor kept;  // the same memory for every result, as a model that was compiled may have it
  const auto leak = subject.check([&](const Tensors& t) -> Tensors {
    const Tensor y = wide_linear(t[0], t[1], t[2]);
    if (!kept.defined()) kept = at::empty_like(y);
    return {kept.copy_(y + 1e-7 * y.mean(0, true))};
  });
  EXPECT_FALSE(leak.isolated);
  EXPECT_TRUE(fails(leak, "not isolated, with NaN in model 0"));
}

TEST(Check, LeavesTheEnsembleAsItWas) {
  const int64_t n = 3;
  Ensemble ensemble;
  ensemble.n = n;
  const Tensor own = at::randn({n, 4}), base = at::randn({4}), ids = at::arange(n * 2).view({n, 2});
  own[0][1] = kNaN;
  const Tensor transposed = at::randn({4, n}).t();
  // Twice the same memory, one row for all models, other strides, integers, and a shared one.
  ensemble.tensors = {own, own, base.expand({n, 4}), transposed, ids, base};
  ensemble.shared = {false, false, false, false, false, true};
  Tensors before;
  for (const Tensor& t : ensemble.tensors) before.push_back(t.clone());
  for (int64_t i = 0; i < n; ++i) {
    {
      const detail::Poisoned poisoned(ensemble, i);
      for (size_t k = 0; k < 4; ++k)
        for (int64_t model = 0; model < n; ++model) {
          const Tensor row = poisoned.ensemble().tensors[k][model];
          EXPECT_TRUE(model == i ? row.isnan().all().item<bool>()
                                 : detail::same_bits(row, before[k][model]))
              << k << " " << model;
        }
      EXPECT_TRUE(detail::same_bits(poisoned.ensemble().tensors[4], before[4]));
      EXPECT_TRUE(detail::same_bits(poisoned.ensemble().tensors[5], before[5]));
    }
    for (size_t k = 0; k < before.size(); ++k)
      EXPECT_TRUE(detail::same_bits(ensemble.tensors[k], before[k])) << k;
  }
}

TEST(Check, SaysWhereBitsChangeWithinTheTolerance) {
  const Subject subject(linear_network(), 3);
  const auto result = subject.check([](const Tensors& t) -> Tensors {
    const bool poisoned = t[1].isnan().any().item<bool>();
    return {wide_linear(t[0], t[1], t[2]) * (poisoned ? 1 + 1e-6 : 1.0)};
  });
  EXPECT_TRUE(passes(result));
  EXPECT_EQ(result.note, "isolation to tolerance: a library picks its kernel by size");

  const auto throws = subject.check([](const Tensors& t) -> Tensors {
    TORCH_CHECK(!t[1].isnan().any().item<bool>(), "no NaN here");
    return {wide_linear(t[0], t[1], t[2])};
  });
  EXPECT_TRUE(fails(throws, "not isolated, with NaN in model 0: no NaN here"));
}

TEST(Check, RefusesWrongShapesDtypesAndNumbers) {
  const Subject subject(linear_network(), 3);
  const auto wide = [](const Tensors& t) { return wide_linear(t[0], t[1], t[2]); };
  EXPECT_TRUE(fails(subject.check([&](const Tensors&) -> Tensors { return {}; }),
                    "results: got 0, expected 1"));
  EXPECT_TRUE(fails(subject.check([&](const Tensors& t) -> Tensors { return {wide(t)[0]}; }),
                    "output 0: got Float[4, 6], expected"));
  EXPECT_TRUE(
      fails(subject.check([&](const Tensors& t) -> Tensors { return {wide(t).to(at::kDouble)}; }),
            "output 0: got Double[3, 4, 6], expected Float[3, 4, 6]"));
  const auto infinite = subject.check([&](const Tensors& t) -> Tensors {
    const Tensor y = wide(t);
    y[2][1][3] = std::numeric_limits<float>::infinity();
    return {y};
  });
  EXPECT_TRUE(
      fails(infinite, "output 0 of model 2: 1 of 24 values not finite as the reference is"));
  EXPECT_TRUE(std::isinf(infinite.max_rel));
}

TEST(Check, LeavesSharedTensorsAlone) {
  Subject subject(linear_network(), 4);
  subject.ensemble.tensors[1] = subject.ensemble.tensors[1][0].clone();
  subject.ensemble.shared[1] = true;
  EXPECT_TRUE(passes(subject.check([](const Tensors& t) -> Tensors {
    return {at::matmul(t[0], t[1].t()) + t[2].unsqueeze(1)};
  })));
}

TEST(Check, WantsIntegersEqual) {
  Network net;
  net.tensors = {{"x", Role::input, {4, 9}},
                 {"index", Role::input, {4}, at::kLong, Fill::integers, 9.0}};
  net.forward = [](const Tensors& t) -> Tensors {
    return {at::argmax(t[0], 1) + t[1], at::gt(t[0], 0)};
  };
  const Subject subject(net, 3);
  const auto right = [](const Tensors& t) -> Tensors {
    return {at::argmax(t[0], 2) + t[1], at::gt(t[0], 0)};
  };
  const auto result = subject.check(right);
  EXPECT_TRUE(passes(result));
  EXPECT_EQ(result.max_rel, 0);
  const auto off = subject.check([&](const Tensors& t) -> Tensors {
    Tensors y = right(t);
    y[0][1][2] += 1;
    return y;
  });
  EXPECT_TRUE(fails(off, "output 0 of model 1: 1 of 4 integers differ"));
}

// --------------------------------------------------------- convolution and batch norm, training

Network conv_norm_network() {
  Network net;
  net.training = true;
  net.tensors = {{"x", Role::input, {4, 3, 5, 5}},
                 {"weight", Role::parameter, {2, 3, 3, 3}},
                 {"gamma", Role::parameter, {2}, at::kFloat, Fill::near_one},
                 {"beta", Role::parameter, {2}},
                 {"running_mean", Role::buffer, {2}},
                 {"running_var", Role::buffer, {2}, at::kFloat, Fill::positive}};
  net.forward = [](const Tensors& t) -> Tensors {
    const Tensor y = at::conv2d(t[0], t[1], {}, 1, 1);
    Tensor mean = t[4], var = t[5];  // the same tensors: updated in place
    return {std::get<0>(at::_native_batch_norm_legit(y, t[2], t[3], mean, var, true, 0.1, 1e-5))};
  };
  return net;
}

Tensors wide_conv_norm(const Tensors& t) {
  const int64_t n = t[0].size(0), b = t[0].size(1);
  const Tensor x = t[0].transpose(0, 1).reshape({b, n * 3, 5, 5});
  const Tensor y = at::conv2d(x, t[1].flatten(0, 1), {}, 1, 1, 1, n);
  const Tensor mean = t[4].flatten().clone(), var = t[5].flatten().clone();
  const Tensor z =
      at::batch_norm(y, t[2].flatten(), t[3].flatten(), mean, var, true, 0.1, 1e-5, false);
  return {z.view({b, n, 2, 5, 5}).transpose(0, 1), mean.view({n, 2}), var.view({n, 2})};
}

TEST(Check, FindsStaleRunningStatistics) {
  const Subject subject(conv_norm_network(), 3);
  ASSERT_EQ(subject.single.updates.size(), 2u) << subject.single.text();
  EXPECT_TRUE(passes(subject.check(wide_conv_norm)));

  const auto stale = subject.check([](const Tensors& t) -> Tensors {
    return {wide_conv_norm(t)[0], t[4], t[5]};
  });
  EXPECT_TRUE(fails(stale, "update of running_"));
  const auto swapped = subject.check([](const Tensors& t) -> Tensors {
    const Tensors y = wide_conv_norm(t);
    return {y[0], y[2], y[1]};
  });
  EXPECT_TRUE(fails(swapped, "update of running_"));
  const auto missing =
      subject.check([](const Tensors& t) -> Tensors { return {wide_conv_norm(t)[0]}; });
  EXPECT_TRUE(fails(missing, "results: got 1, expected 3"));
}

/// Counts what as_function asks of it.
struct CountingModel : CompiledModel {
  int weights_set = 0;
  Tensors weights;
  Program program_;
  Coverage coverage_;
  std::vector<PassRecord> passes_;
  Tensor result = at::zeros({2, 3});

  Tensors run(const Tensors& inputs) override {
    result.copy_(inputs[0] * weights[0]);
    return {result};  // its own memory, used again by the next call
  }
  void set_weights(const Tensors& w) override {
    ++weights_set;
    weights = w;
  }
  const Program& single() const override { return program_; }
  const Program& program() const override { return program_; }
  const Coverage& coverage() const override { return coverage_; }
  const std::vector<PassRecord>& passes() const override { return passes_; }
  std::vector<StepCost> explain(const Tensors&) override { return {}; }
  int ranges() const override { return 1; }
  std::string plan_text() const override { return ""; }
  int64_t bytes() const override { return 0; }
};

TEST(Check, AsFunctionSetsWeightsOnlyWhenTheyDiffer) {
  Network net;
  net.tensors = {{"weight", Role::parameter, {3}}, {"x", Role::input, {3}}};
  CountingModel model;
  const WideFunction function = as_function(model, net);
  Ensemble ensemble = generate(net, 2, at::kFloat, c10::kCPU, 5);
  function(ensemble);
  ensemble.tensors[1] = ensemble.tensors[1] + 1;
  function(ensemble);
  EXPECT_EQ(model.weights_set, 1);
  ensemble.tensors[0].mul_(2);  // in place
  function(ensemble);
  EXPECT_EQ(model.weights_set, 2);
  ensemble.tensors[0] = ensemble.tensors[0].clone();  // other memory
  function(ensemble);
  function(ensemble);
  EXPECT_EQ(model.weights_set, 3);
}

TEST(Check, ReferenceIsTheSeparateModelsInDouble) {
  const Subject subject(conv_norm_network(), 3);
  const Tensors expected = in_double(subject.single, subject.ensemble);
  for (int64_t i = 0; i < 3; ++i) {
    Tensors model;
    for (const Tensor& t : subject.ensemble.model(i)) model.push_back(t.to(at::kDouble));
    const Tensor y = subject.network.forward(model)[0];
    EXPECT_LT(max_relative_error({expected[0].narrow(0, i, 1)}, {y.unsqueeze(0)}), 1e-12);
    EXPECT_LT(max_relative_error({expected[1].narrow(0, i, 1)}, {model[4].unsqueeze(0)}), 1e-12);
  }
  EXPECT_EQ(separate(subject.single, subject.ensemble)[0].scalar_type(), at::kFloat);
}

TEST(Check, ModelsThatOverflowExcuseNothing) {
  Correctness c;
  c.tolerance = 1e-3;
  for (const double own : {1e-9, std::numeric_limits<double>::infinity(), kNaN}) {
    c.eager_max_rel = own;
    EXPECT_EQ(allowed(c), 1e-3);
  }
  c.eager_max_rel = 1e-2;
  EXPECT_EQ(allowed(c), 4e-2);
}

TEST(Check, RelativeErrorIsPerModelAndKnowsNaN) {
  const Tensor expected = at::tensor({100., 1., 0., 0.}).view({2, 2});
  EXPECT_DOUBLE_EQ(max_relative_error({expected + 1}, {expected}), 1);  // model 1 is absolute
  const Tensor nan = at::tensor({kNaN, 1., 2., 3.}).view({2, 2});
  EXPECT_EQ(max_relative_error({nan}, {nan}), 0);
  EXPECT_TRUE(std::isinf(max_relative_error({nan}, {expected})));
  EXPECT_TRUE(std::isinf(max_relative_error({expected}, {nan})));
  const Tensor complex = at::complex(expected, expected + 2);
  EXPECT_EQ(max_relative_error({complex}, {complex.clone()}), 0);
  EXPECT_GT(max_relative_error({complex.conj()}, {complex}), 0.9);  // wrong in one half only
  EXPECT_FALSE(detail::same_bits(at::zeros({2}), -at::zeros({2})));
  EXPECT_TRUE(detail::same_bits(nan, nan.clone()));
}

// -------------------------------------------------------------------------- random networks

constexpr double kP = 0.3;

Network dropout_network() {
  Network net;
  net.random = true;
  net.tensors = {{"x", Role::input, {16, 32}}};
  net.forward = [](const Tensors& t) -> Tensors { return {at::dropout(t[0], kP, true)}; };
  return net;
}

Network dropout_linear_network() {
  Network net = dropout_network();
  net.tensors.push_back({"weight", Role::parameter, {8, 32}});
  net.forward = [](const Tensors& t) -> Tensors {
    return {at::linear(at::dropout(t[0], kP, true), t[1])};
  };
  return net;
}

/// Draws one mask of the shape of `like` and applies it to all of `x`.
Tensor drop_alike(const Tensor& x, const Tensor& like, double p = kP, double scale = 1 / (1 - kP)) {
  return x * at::bernoulli(at::full_like(like, 1 - p)) * scale;
}

TEST(CheckRandom, BelievesIndependentDropout) {
  for (const int64_t n : {1, 2, 5}) {
    const Subject subject(dropout_network(), n);
    const auto result =
        subject.check([](const Tensors& t) -> Tensors { return {at::dropout(t[0], kP, true)}; });
    EXPECT_TRUE(passes(result)) << n;
    EXPECT_EQ(result.note, "by statistics over 24 seeds; masks independent");
  }
  const Subject subject(dropout_linear_network(), 3);
  EXPECT_TRUE(passes(subject.check([](const Tensors& t) -> Tensors {
    return {at::bmm(at::dropout(t[0], kP, true), t[1].transpose(1, 2))};
  })));
}

TEST(CheckRandom, FindsMasksSharedByAllModels) {
  const Subject dropout(dropout_network(), 4);
  const auto shared = [](const Tensors& t) -> Tensors { return {drop_alike(t[0], t[0][0])}; };
  EXPECT_TRUE(fails(dropout.check(shared), "output 0: models 0 and 1 share their mask"));
  const auto declared = dropout.check(shared, true);
  EXPECT_TRUE(passes(declared));
  EXPECT_EQ(declared.note, "by statistics over 24 seeds; masks shared");
  EXPECT_TRUE(
      fails(dropout.check([](const Tensors& t) -> Tensors { return {at::dropout(t[0], kP, true)}; },
                          true),
            "masks differ between models, declared shared"));

  // Only two of four, and behind a linear where no zeros show it.
  const Subject linear(dropout_linear_network(), 4);
  const auto some = linear.check([](const Tensors& t) -> Tensors {
    const Tensor mask = at::bernoulli(at::full_like(t[0], 1 - kP));
    const Tensor twice = at::cat({mask.narrow(0, 0, 3), mask.narrow(0, 1, 1)});
    return {at::bmm(t[0] * twice / (1 - kP), t[1].transpose(1, 2))};
  });
  EXPECT_TRUE(fails(some, "output 0: models 1 and 3 share their mask"));
}

TEST(CheckRandom, FindsWrongDistributions) {
  const Subject dropout(dropout_network(), 3);
  EXPECT_TRUE(fails(
      dropout.check([](const Tensors& t) -> Tensors { return {at::dropout(t[0], 0.5, true)}; }),
      "share of zeros 0.5"));
  EXPECT_TRUE(fails(dropout.check([](const Tensors& t) -> Tensors {
    return {drop_alike(t[0], t[0], kP, 1.0)};  // not scaled
  }),
                    "projection on the mean"));
  EXPECT_TRUE(fails(dropout.check([](const Tensors& t) -> Tensors {
    return {at::dropout(t[0].roll(1, 0), kP, true)};  // the wrong model's input
  }),
                    "over seeds"));
  EXPECT_TRUE(fails(dropout.check([](const Tensors& t) -> Tensors {
    return {drop_alike(t[0], t[0].narrow(1, 0, 1))};  // one mask for the whole batch
  }),
                    "standard deviation over seeds"));

  const Subject linear(dropout_linear_network(), 3);
  EXPECT_TRUE(fails(linear.check([](const Tensors& t) -> Tensors {
    return {at::bmm(at::dropout(t[0], kP, true), t[1].roll(1, 0).transpose(1, 2))};
  }),
                    "projection on the mean"));
}

TEST(CheckRandom, TellsStateKeptBetweenCallsByTheOrder) {
  const Subject linear(dropout_linear_network(), 5);
  Tensor first_weight;
  const auto stale = linear.check([&](const Tensors& t) -> Tensors {
    if (!first_weight.defined()) first_weight = t[1].clone();
    return {at::bmm(at::dropout(t[0], kP, true), first_weight.transpose(1, 2))};
  });
  EXPECT_TRUE(fails(stale, "models permuted, output 0 of model "));
  EXPECT_FALSE(stale.ordered);
  // Wrong in every order alike: the order is not to blame.
  const auto wrong = linear.check([](const Tensors& t) -> Tensors {
    return {at::bmm(at::dropout(t[0], kP, true), t[1].flip(1).transpose(1, 2))};
  });
  EXPECT_TRUE(fails(wrong, "output 0 of model "));
  EXPECT_FALSE(wrong.ordered);
  EXPECT_EQ(wrong.failure.find("permuted"), std::string::npos) << wrong.failure;
}

TEST(CheckRandom, WantsDrawsThatFollowTheSeed) {
  const Subject dropout(dropout_network(), 3);
  EXPECT_TRUE(fails(dropout.check([](const Tensors& t) -> Tensors { return {t[0].clone()}; }),
                    "output 0 of model 0: the same for every seed"));
  EXPECT_TRUE(fails(dropout.check([count = uint64_t{0}](const Tensors& t) mutable -> Tensors {
    at::manual_seed(++count);
    return {at::dropout(t[0], kP, true)};
  }),
                    "output 0: the same seed, another result"));
  EXPECT_TRUE(fails(dropout.check([](const Tensors& t) -> Tensors {
    const Tensor y = at::dropout(t[0], kP, true);
    return {y + 0 * t[0].sum(0, true)};
  }),
                    "not isolated, with NaN in model 0: another model changes"));
}

TEST(CheckRandom, MonteCarloDropoutWithOneInputForAll) {
  Subject subject(dropout_linear_network(), 3);
  for (size_t k = 0; k < 2; ++k) {
    subject.ensemble.tensors[k] = subject.ensemble.tensors[k][0].clone();
    subject.ensemble.shared[k] = true;
  }
  EXPECT_TRUE(passes(subject.check([](const Tensors& t) -> Tensors {
    return {at::matmul(at::dropout(t[0].expand({3, 16, 32}), kP, true), t[1].t())};
  })));
  EXPECT_TRUE(fails(subject.check([](const Tensors& t) -> Tensors {
    return {at::matmul(at::dropout(t[0], kP, true), t[1].t()).expand({3, 16, 8})};
  }),
                    "models 0 and 1 share their mask"));
}

TEST(CheckRandom, ValuesAreCheckedWhereNothingIsDrawn) {
  Network net = dropout_network();
  net.forward = [](const Tensors& t) -> Tensors { return {at::dropout(t[0], 0.0, true)}; };
  const Subject subject(net, 3);
  EXPECT_TRUE(passes(subject.check([](const Tensors& t) -> Tensors { return {t[0].clone()}; })));
  EXPECT_TRUE(fails(subject.check([](const Tensors& t) -> Tensors { return {t[0] * 1.01}; }),
                    ": relative error 0.01, tolerance 2e-04"));
}

TEST(CheckRandom, RightDistributionsPracticallyNeverFail) {
  int failures = 0;
  for (int trial = 0; trial < 60; ++trial) {
    at::manual_seed(static_cast<uint64_t>(trial));
    const double p = 0.05 + 0.9 * trial / 60;
    const Tensor x = at::randn({1, 3, 2 + trial}, at::kDouble);
    const auto drawn = [&] {
      return at::dropout(x.expand({24, 3, 2 + trial}).contiguous(), p, true);
    };
    const std::string difference = detail::compare_distributions(drawn(), drawn(), 2e-4, true);
    failures += difference.empty() ? 0 : 1;
    EXPECT_EQ(difference, "") << "p " << p;
  }
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace wide::check_test
