#include "engine/train/step_check.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "engine/record/record.h"
#include "tests/engine/train/ties.h"

namespace wide::step_check_test {
namespace {

using Function = std::function<Tensor(const Tensors&)>;

/// Of (x a + x b) + x c, where b is lost beside a in float32 and c takes a away: zero there, of the
/// sign of x b in float64.
Tensor nearly_zero(const Tensors& t) { return (t[0] * t[1] + t[0] * t[2]) + t[0] * t[3]; }

Tensors tensors(int64_t size) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t(size));
  const Tensor x = at::randn({size}, generator, at::kFloat);
  const Tensor a = at::rand({size}, generator, at::kFloat) + 1;
  return {x, a, at::full({size}, 1e-9F), -a};
}

/// Loss and gradients of a, b, c in float32, as autograd has them.
Tensors in_float(const Function& loss, Tensors t) {
  const at::AutoGradMode grad(true);
  for (size_t k = 1; k < t.size(); ++k) t[k] = t[k].detach().requires_grad_();
  const Tensor value = loss(t);
  Tensors got = torch::autograd::grad({value}, {t[1], t[2], t[3]});
  got.insert(got.begin(), value.detach().to(at::kDouble));
  return got;
}

Program recorded(const Function& loss, const Tensors& t) {
  std::vector<Binding> bindings;
  for (const Tensor& tensor : t) bindings.push_back({"", Role::input, tensor, true});
  return record(
      bindings, [&](const Tensors& inner) { return Tensors{loss(inner)}; }, 1);
}

/// Checks a step that computes `step` in float32 where the model's loss is `loss`.
StepCheck check(const Function& loss, const Tensors& t,
                const std::function<Tensors(Tensors)>& step) {
  StepChecker checker(recorded(loss, t), {1, 2, 3}, {"a", "b", "c"}, at::kFloat);
  const auto again = [&](const Tensors& values) {
    return step({t[0], values[0], values[1], values[2]});
  };
  checker.add(7, t, step(t), again);
  return checker.result();
}

TEST(StepCheck, ADifferenceAtATieIsANote) {
  const Function tie = [](const Tensors& t) {
    return at::relu(nearly_zero(t)).sum() + (t[1] * t[1]).sum();
  };
  for (const int64_t size : {1, 7, 1000}) {
    const Tensors t = tensors(size);
    const auto step = [&](const Tensors& given) { return in_float(tie, given); };
    const StepCheck result = check(tie, t, step);
    EXPECT_TRUE(result.pass) << result.failure;
    const bool differs = t[0].gt(0).any().item<bool>();
    ASSERT_EQ(result.vanished.size(), differs ? 1 : 0);
    if (differs) {
      const StepCheck::Vanished& note = result.vanished[0];
      EXPECT_EQ(note.model, 7);
      EXPECT_TRUE(note.tensor == "a" || note.tensor == "b" || note.tensor == "c") << note.tensor;
      EXPECT_GT(note.gradient_error, 1e-4);
      EXPECT_NE(note.why.find("a tie"), std::string::npos) << note.why;
    }
    // An error at a tie stays, and so does what is no number.
    for (const double wrong : {9.0, std::numeric_limits<double>::quiet_NaN()}) {
      const auto off = [&](const Tensors& given) {
        Tensors got = in_float(tie, given);
        got[2] = got[2] + wrong;
        return got;
      };
      EXPECT_FALSE(check(tie, t, off).pass);
    }
  }
}

TEST(StepCheck, ADifferenceInOneTryOfFourIsANote) {
  const Function smooth = [](const Tensors& t) {
    return at::tanh(t[0] * t[1] + t[2]).sum() + t[3].sum();
  };
  for (const int right : {0, 1, 2, 3, 4}) {
    int calls = 0;
    const StepCheck result = check(smooth, tensors(31), [&](const Tensors& given) {
      Tensors got = in_float(smooth, given);
      if (calls++ != right) got[1] = got[1] * 1.001;
      return got;
    });
    EXPECT_EQ(result.pass, right < 4) << "right in call " << right;
    EXPECT_EQ(calls, right == 0 ? 1 : std::min(right + 1, 4));
    EXPECT_EQ(result.vanished.size(), right > 0 && right < 4 ? 1 : 0);
  }
}

TEST(StepCheck, ALossThatRoundingHidesIsANote) {
  // softplus(-30): 1e-13 in float64, and 0 as a difference of two numbers in float32.
  const Function sure = [](const Tensors& t) {
    const Tensor logit = 30 + t[1] + t[2] + t[3] + t[0] * 0;
    return (at::logsumexp(at::stack({logit, at::zeros_like(logit)}), {0}) - logit).sum();
  };
  const StepCheck result =
      check(sure, tensors(5), [&](const Tensors& given) { return in_float(sure, given); });
  EXPECT_TRUE(result.pass) << result.failure;
  ASSERT_EQ(result.vanished.size(), 1);
  EXPECT_NE(result.vanished[0].why.find("rounding"), std::string::npos);
}

TEST(StepCheck, AWrongGradientIsOneWhereNothingIsNearATie) {
  const Function smooth = [](const Tensors& t) { return at::tanh(t[0] * t[1] + t[2]).sum(); };
  const Function both = [&](const Tensors& t) { return smooth(t) + t[3].sum(); };
  const Tensors t = tensors(31);
  const StepCheck right =
      check(both, t, [&](const Tensors& given) { return in_float(both, given); });
  EXPECT_TRUE(right.pass) << right.failure;
  EXPECT_TRUE(right.vanished.empty());
  const StepCheck wrong = check(both, t, [&](const Tensors& given) {
    Tensors got = in_float(both, given);
    got[1] = got[1] * 1.001;
    return got;
  });
  EXPECT_FALSE(wrong.pass);
  EXPECT_NE(wrong.failure.find("model 7"), std::string::npos) << wrong.failure;
  EXPECT_NE(wrong.failure.find("gradient of a"), std::string::npos) << wrong.failure;
}

using training::AtTies;

std::vector<AtTies> networks_at_ties() {
  constexpr int64_t kModels = 75, kRows = 3;
  return {training::pooled_mlp(kModels, kRows, 11), training::small_cnn(kModels, kRows, 12),
          training::perfect_fit(kModels, kRows, 13), training::shifted_mlp(kModels, kRows, 14)};
}

TEST(StepCheck, NetworksAtTiesRaiseNoFalseAlarm) {
  for (const AtTies& all : networks_at_ties()) {
    SCOPED_TRACE(all.subject.name);
    TrainerOptions o;
    o.n = all.start.begin()->second.tensor.size(0);
    o.loss = all.loss;
    o.models_at_a_time = 16;
    o.tune = false;
    Trainer trainer(training::forms(all.subject), {{"x"}}, all.start, o);
    const StepCheck result = trainer.check(all.batch, o.n);
    EXPECT_TRUE(result.pass) << result.failure;
    EXPECT_EQ(result.models, o.n);
    EXPECT_GE(result.vanished.size(), 15);  // of 75: float32 falls on the other side
    // Tries leave the weights as they were.
    std::map<std::string, Tensor> before;
    for (const auto& [name, tensor] : all.start) before[name] = tensor.tensor;
    training::expect_same_bits(trainer.weights(), before);
  }
}

TEST(StepCheck, ErrorsInNetworksAtTiesAreFound) {
  for (const AtTies& all : networks_at_ties()) {
    SCOPED_TRACE(all.subject.name);
    const int64_t n = all.start.begin()->second.tensor.size(0);
    std::vector<size_t> trained;
    std::vector<std::string> names;
    for (size_t k = 0; k < all.subject.tensors.size(); ++k) {
      trained.push_back(k + 2);
      names.push_back(all.subject.tensors[k].name);
    }
    const Function loss = [&](const Tensors& t) {
      const Tensor y = all.subject.forward(t[0], Tensors(t.begin() + 2, t.end()), true);
      const LossSums sums = loss_sums(all.loss, {y, t[1], {}, {}, {}, {}});
      return sums.weighted / sums.weights;
    };
    const auto bound = [&](int64_t i) {
      Tensors t{all.batch.inputs[0].values[i], all.batch.target.values[i]};
      for (const TensorSpec& spec : all.subject.tensors)
        t.push_back(all.start.at(spec.name).tensor[i]);
      return t;
    };
    const Program single = recorded(loss, bound(0));
    const auto found = [&](int64_t i, const std::function<void(Tensors&)>& plant) {
      const auto step = [&](Tensors t) {
        const at::AutoGradMode grad(true);
        for (const size_t k : trained) t[k] = t[k].detach().requires_grad_();
        const Tensor value = loss(t);
        Tensors got = torch::autograd::grad({value}, Tensors(t.begin() + 2, t.end()));
        got.insert(got.begin(), value.detach().to(at::kDouble));
        plant(got);
        return got;
      };
      const Tensors own = bound(i);
      StepChecker checker(single, trained, names, at::kFloat);
      checker.add(i, own, step(own), [&](const Tensors& values) {
        Tensors other(own.begin(), own.begin() + 2);
        other.insert(other.end(), values.begin(), values.end());
        return step(other);
      });
      return !checker.result().pass;
    };
    const std::vector<std::function<void(Tensors&)>> plants = {
        [](Tensors& got) {
          for (size_t k = 1; k < got.size(); ++k) got[k] = got[k] * 1.0005;
        },
        [](Tensors& got) { got[1] = got[1].flip(0); },
        [](Tensors& got) { got[0] = got[0] * 1.0005; },
        [](Tensors& got) { got.back() = at::zeros_like(got.back()); }};
    for (int64_t i = 0; i < n; i += 5) {
      EXPECT_FALSE(found(i, [](Tensors&) {})) << i;
      const auto k = static_cast<size_t>(i / 5) % plants.size();
      EXPECT_TRUE(found(i, plants[k])) << "error " << k << " in model " << i;
    }
  }
}

}  // namespace
}  // namespace wide::step_check_test
