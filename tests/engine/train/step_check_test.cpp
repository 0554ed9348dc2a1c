#include "engine/train/step_check.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "engine/record/record.h"

namespace wide {
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

StepCheck check(const Function& loss, const Tensors& t, const Tensors& got) {
  std::vector<Binding> bindings;
  for (const Tensor& tensor : t) bindings.push_back({"", Role::input, tensor, true});
  const Program single = record(
      bindings, [&](const Tensors& inner) { return Tensors{loss(inner)}; }, 1);
  StepChecker checker(single, {1, 2, 3}, {"a", "b", "c"}, at::kFloat);
  checker.add(0, t, got);
  return checker.result();
}

TEST(StepCheck, ARoundingAtAKinkIsNoError) {
  const Function kink = [](const Tensors& t) {
    return at::relu(nearly_zero(t)).sum() + (t[1] * t[1]).sum();
  };
  for (const int64_t size : {1, 7, 1000}) {
    const Tensors t = tensors(size);
    const Tensors got = in_float(kink, t);
    const StepCheck result = check(kink, t, got);
    EXPECT_TRUE(result.pass) << result.failure;
    const bool differs = t[0].gt(0).any().item<bool>();
    EXPECT_EQ(result.at_kinks, differs ? 1 : 0);
    // Neither is more than a kink explains, nor what is no number.
    for (const double wrong : {9.0, std::numeric_limits<double>::quiet_NaN()}) {
      Tensors off = got;
      off[2] = off[2] + wrong;
      EXPECT_FALSE(check(kink, t, off).pass);
    }
  }
}

TEST(StepCheck, AWrongGradientIsOneWhereNothingIsNearAKink) {
  const Function smooth = [](const Tensors& t) { return at::tanh(t[0] * t[1] + t[2]).sum(); };
  const Function both = [&](const Tensors& t) { return smooth(t) + t[3].sum(); };
  const Tensors t = tensors(31);
  Tensors got = in_float(both, t);
  const StepCheck right = check(both, t, got);
  EXPECT_TRUE(right.pass) << right.failure;
  EXPECT_EQ(right.at_kinks, 0);
  got[1] = got[1] * 1.001;
  const StepCheck wrong = check(both, t, got);
  EXPECT_FALSE(wrong.pass);
  EXPECT_NE(wrong.failure.find("gradient of a"), std::string::npos) << wrong.failure;
}

}  // namespace
}  // namespace wide
