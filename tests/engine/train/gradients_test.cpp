#include <torch/csrc/autograd/autograd.h>

#include "engine/error.h"
#include "tests/engine/train/subjects.h"

namespace wide::gradients_test {
namespace {

using namespace training;

constexpr int64_t kN = 3, kB = 7;

/// A loss, what PyTorch calls it, and targets for it.
struct Given {
  std::string text;
  Loss loss;
  std::function<Tensor(const Tensor& y, const Tensor& target, int64_t model)> torch;
  std::function<Tensor(int64_t model_count)> target;
  std::map<std::string, std::vector<double>> hyperparameters = {};
};

Tensor reals() { return random({kN, kB, 5}, at::kDouble, 11); }

std::vector<Given> losses() {
  const auto labels = [](int64_t n) { return classes({n, kB}, 5, 12); };
  const auto some_ignored = [=](int64_t n) {
    Tensor t = labels(n);
    t.select(1, 2).fill_(-100);
    t[0][4] = -100;
    return t;
  };
  const auto numbers = [](int64_t) { return reals(); };
  const auto bits = [](int64_t n) { return classes({n, kB, 5}, 2, 13).to(at::kDouble); };
  const Tensor weight = random({5}, at::kDouble, 14).abs() + 0.2;
  const Tensor own_weight = random({kN, 5}, at::kDouble, 15).abs() + 0.2;
  const Tensor pos = random({5}, at::kDouble, 16).abs() + 0.3;
  Loss ce, weighted, own, smoothed, nll, mse, l1, huber, bce, bce_pos;
  weighted.weight = weight;
  own.weight = own_weight;
  smoothed.weight = weight;
  nll.name = "nll";
  mse.name = "mse";
  l1.name = "l1";
  huber.name = "huber";
  huber.delta = 0.7;
  bce.name = bce_pos.name = "bce_with_logits";
  bce_pos.pos_weight = pos;
  const auto mean = at::Reduction::Mean;
  const auto like = [](const Tensor& w, const Tensor& y) { return w.to(y.scalar_type()); };
  const std::vector<double> smoothing{0.1, 0.0, 0.3};
  return {
      {"cross_entropy", ce,
       [=](const Tensor& y, const Tensor& t, int64_t) {
         return at::cross_entropy_loss(y, t, {}, mean, -100);
       },
       some_ignored},
      {"cross_entropy with weights", weighted,
       [=](const Tensor& y, const Tensor& t, int64_t) {
         return at::cross_entropy_loss(y, t, like(weight, y), mean, -100);
       },
       some_ignored},
      {"cross_entropy with each model's weights", own,
       [=](const Tensor& y, const Tensor& t, int64_t i) {
         return at::cross_entropy_loss(y, t, like(own_weight[i], y), mean, -100);
       },
       labels},
      {"cross_entropy, smoothed",
       smoothed,
       [=](const Tensor& y, const Tensor& t, int64_t i) {
         return at::cross_entropy_loss(y, t, like(weight, y), mean, -100,
                                       smoothing[static_cast<size_t>(i)]);
       },
       some_ignored,
       {{"label_smoothing", smoothing}}},
      {"nll", nll,
       [=](const Tensor& y, const Tensor& t, int64_t) {
         return at::nll_loss(y, t, {}, mean, -100);
       },
       some_ignored},
      {"mse", mse,
       [=](const Tensor& y, const Tensor& t, int64_t) { return at::mse_loss(y, t, mean); },
       numbers},
      {"l1", l1, [=](const Tensor& y, const Tensor& t, int64_t) { return at::l1_loss(y, t, mean); },
       numbers},
      {"huber", huber,
       [=](const Tensor& y, const Tensor& t, int64_t) { return at::huber_loss(y, t, mean, 0.7); },
       numbers},
      {"bce_with_logits", bce,
       [=](const Tensor& y, const Tensor& t, int64_t) {
         return at::binary_cross_entropy_with_logits(y, t, {}, {}, mean);
       },
       bits},
      {"bce_with_logits, pos_weight", bce_pos,
       [=](const Tensor& y, const Tensor& t, int64_t) {
         return at::binary_cross_entropy_with_logits(y, t, {}, like(pos, y), mean);
       },
       bits},
  };
}

TrainerOptions options(const Given& given) {
  TrainerOptions o;
  o.n = kN;
  o.loss = given.loss;
  o.hyperparameters = given.hyperparameters;
  o.tune = false;
  o.threads = 2;
  return o;
}

void compare(const Subject& s, const Given& given, at::ScalarType dtype, double tolerance) {
  SCOPED_TRACE(s.name + ", " + given.text);
  const auto begin = start(s, kN, dtype);
  Batch b = batch(s, kN, kB, dtype, 21);
  b.target.values = given.target(kN);
  Trainer trainer(forms(s), {{"x"}}, begin, options(given));
  Tensor losses;
  const auto got = trainer.gradients(b, &losses);
  for (int64_t i = 0; i < kN; ++i) {
    Tensors own = own_weights(s, begin, i), leaves;
    std::vector<std::string> names;
    for (size_t k = 0; k < own.size(); ++k) {
      if (own[k].is_floating_point()) own[k] = own[k].to(at::kDouble);
      if (s.tensors[k].role != Role::parameter) continue;
      leaves.push_back(own[k].requires_grad_());
      names.push_back(s.tensors[k].name);
    }
    Tensor target = b.target.values[i];
    if (target.is_floating_point()) target = target.to(at::kDouble);
    const Tensor y = s.forward(b.inputs[0].values[i].to(at::kDouble), own, true);
    const Tensor loss = given.torch(y, target, i);
    const Tensors expected = torch::autograd::grad({loss}, leaves);
    EXPECT_NEAR(losses[i].item<double>(), loss.item<double>(),
                tolerance * std::abs(loss.item<double>()));
    double largest = 0;
    for (const Tensor& g : expected) largest = std::max(largest, g.abs().max().item<double>());
    ASSERT_GT(largest, 0);
    for (size_t k = 0; k < names.size(); ++k) {
      const Tensor off = (got.at(names[k])[i].to(at::kDouble) - expected[k]).abs().max();
      EXPECT_LE(off.item<double>(), tolerance * largest) << names[k] << " of model " << i;
    }
  }
  const StepCheck check = trainer.check(b, kN);
  EXPECT_TRUE(check.pass) << check.failure;
  EXPECT_EQ(check.models, kN);
}

TEST(TrainGradients, AreThoseOfSeparateModelsInDouble) {
  for (const Subject& s : subjects())
    for (const Given& given : losses()) compare(s, given, at::kDouble, 1e-9);
}

TEST(TrainGradients, AreThoseOfSeparateModelsInFloat) {
  for (const Subject& s : subjects())
    for (const Given& given : losses())
      if (given.text == "cross_entropy" || given.text == "mse") compare(s, given, at::kFloat, 1e-4);
}

TEST(TrainGradients, RowsCountByTheirWeights) {
  const Subject s = mlp();
  const auto begin = start(s, kN, at::kDouble);
  for (const Given& given : losses()) {
    if (given.text == "cross_entropy, smoothed") continue;  // torch has no rows' weights for it
    SCOPED_TRACE(given.text);
    Batch b = batch(s, kN, kB, at::kDouble, 21);
    b.target.values = given.target(kN);
    b.weight.values = random({kN, kB}, at::kDouble, 31).abs();
    Trainer trainer(forms(s), {{"x"}}, begin, options(given));
    Tensor losses;
    trainer.gradients(b, &losses);
    for (int64_t i = 0; i < kN; ++i) {
      const Tensors own = own_weights(s, begin, i);
      double sum = 0, weights = 0;
      for (int64_t r = 0; r < kB; ++r) {
        const Tensor target = b.target.values[i].slice(0, r, r + 1);
        if (!target.is_floating_point() && target.item<int64_t>() == -100) continue;
        double w = b.weight.values[i][r].item<double>();
        const Tensor y = s.forward(b.inputs[0].values[i].slice(0, r, r + 1), own, true);
        const double l = given.torch(y, target, i).item<double>();
        const Tensor& classes = given.loss.weight;  // the mean of one row has lost its weight
        if (classes.defined())
          w *= (classes.dim() == 2 ? classes[i] : classes)[target.item<int64_t>()].item<double>();
        sum += w * l;
        weights += w;
      }
      EXPECT_NEAR(losses[i].item<double>(), sum / weights, 1e-12);
    }
  }
}

}  // namespace
}  // namespace wide::gradients_test
