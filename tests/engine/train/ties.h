#pragma once
#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "tests/engine/train/subjects.h"

namespace wide::training {

/// N models whose steps lie at ties: an argument of relu that is zero, or two candidates of a
/// maximum that are equal, in exact numbers but for a rounding of float32.
struct AtTies {
  Subject subject;
  std::map<std::string, StartTensor> start;
  Batch batch;
  Loss loss;
};

/// A float32 next to a number, or the one after that.
inline float next_to(double exact, int64_t draw) {
  const auto nearest = static_cast<float>(exact);
  const float far = std::numeric_limits<float>::infinity();
  return draw % 3 == 0 ? nearest : std::nextafter(nearest, draw % 3 == 1 ? far : -far);
}

inline void set_bias(const Tensor& bias, int64_t unit, double value, int64_t draw) {
  bias[unit].fill_(next_to(value, draw));
}

/// Linear layer, maximum of two, relu, linear layer: equal maxima and zero arguments.
inline AtTies pooled_mlp(int64_t n, int64_t rows, uint64_t seed) {
  AtTies all;
  all.subject = {"pooled mlp",
                 {6},
                 {weight("0.weight", {8, 6}), weight("0.bias", {8}), weight("1.weight", {6, 4}),
                  weight("1.bias", {6}), weight("2.weight", {5, 6}), weight("2.bias", {5})},
                 [](const Tensor& x, const Tensors& w, bool) {
                   const Tensor h =
                       at::max_pool1d(at::linear(x, w[0], w[1]).unsqueeze(1), 2).squeeze(1);
                   return at::linear(at::relu(at::linear(h, w[2], w[3])), w[4], w[5]);
                 }};
  all.start = start(all.subject, n, at::kFloat, seed);
  all.batch = batch(all.subject, n, rows, at::kFloat, seed);
  for (int64_t i = 0; i < n; ++i) {
    Tensors exact{all.batch.inputs[0].values[i].to(at::kDouble)};
    const auto own = [&](const char* name) { return all.start.at(name).tensor[i]; };
    const auto at = [&](const Tensor& t, int64_t row, int64_t unit) {
      return t[row][unit].item<double>();
    };
    const Tensor z = at::linear(exact[0], own("0.weight").to(at::kDouble));
    for (int64_t unit = 0; unit < 8; unit += 2) {
      const int64_t row = (i + unit) % rows;
      const double first = own("0.bias")[unit].item<double>();
      set_bias(own("0.bias"), unit + 1, at(z, row, unit) + first - at(z, row, unit + 1), i + unit);
    }
    const Tensor h = at::max_pool1d((z + own("0.bias").to(at::kDouble)).unsqueeze(1), 2).squeeze(1);
    const Tensor a = at::linear(h, own("1.weight").to(at::kDouble));
    for (int64_t unit = 0; unit < 6; ++unit)
      set_bias(own("1.bias"), unit, -at(a, (i + unit) % rows, unit), i + unit);
  }
  return all;
}

/// Convolution, relu, maximum of four, linear layer: zero arguments, in places where most others
/// are negative also the largest.
inline AtTies small_cnn(int64_t n, int64_t rows, uint64_t seed) {
  AtTies all;
  all.subject = {"cnn",
                 {1, 8, 8},
                 {weight("c.weight", {4, 1, 3, 3}), weight("c.bias", {4}),
                  weight("f.weight", {5, 36}), weight("f.bias", {5})},
                 [](const Tensor& x, const Tensors& w, bool) {
                   const Tensor h = at::max_pool2d(at::relu(at::conv2d(x, w[0], w[1])), 2);
                   return at::linear(h.flatten(1), w[2], w[3]);
                 }};
  all.start = start(all.subject, n, at::kFloat, seed);
  all.batch = batch(all.subject, n, rows, at::kFloat, seed);
  for (int64_t i = 0; i < n; ++i) {
    const Tensor z = at::conv2d(all.batch.inputs[0].values[i].to(at::kDouble),
                                all.start.at("c.weight").tensor[i].to(at::kDouble));
    for (int64_t unit = 0; unit < 4; ++unit) {
      // Among the largest of its channel, so that little else has a gradient.
      const Tensor sorted = std::get<0>(z.select(1, unit).flatten().sort());
      const double zero = sorted[-1 - (i + unit) % 5].item<double>();
      set_bias(all.start.at("c.bias").tensor[i], unit, -zero, i + unit);
    }
  }
  return all;
}

/// Linear layers whose predictions are the targets: the loss l1 has no gradient there.
inline AtTies perfect_fit(int64_t n, int64_t rows, uint64_t seed) {
  AtTies all;
  all.subject = mlp();
  all.loss.name = "l1";
  all.start = start(all.subject, n, at::kFloat, seed);
  all.batch = batch(all.subject, n, rows, at::kFloat, seed);
  Tensor target = at::empty({n, rows, 5}, at::kFloat);
  for (int64_t i = 0; i < n; ++i) {
    Tensors own = own_weights(all.subject, all.start, i);
    for (Tensor& t : own) t = t.to(at::kDouble);
    const Tensor y =
        all.subject.forward(all.batch.inputs[0].values[i].to(at::kDouble), own, true).flatten();
    const Tensor near = target[i].flatten();
    for (int64_t k = 0; k < near.numel(); ++k)
      near[k].fill_(k % 4 ? y[k].item<double>() + 1 : next_to(y[k].item<double>(), i + k));
  }
  all.batch.target = {target};
  return all;
}

/// A relu's argument that goes by way of larger numbers: an ulp of those is far more than rounding
/// of weights and inputs moves it.
inline AtTies shifted_mlp(int64_t n, int64_t rows, uint64_t seed) {
  AtTies all;
  all.subject = {"shifted mlp",
                 {6},
                 {weight("0.weight", {8, 6}), weight("0.bias", {8}), weight("1.weight", {5, 8}),
                  weight("1.bias", {5})},
                 [](const Tensor& x, const Tensors& w, bool) {
                   return at::linear(at::relu(at::linear(x, w[0], w[1]) + 32 - 32), w[2], w[3]);
                 }};
  all.start = start(all.subject, n, at::kFloat, seed);
  all.batch = batch(all.subject, n, rows, at::kFloat, seed);
  constexpr double kUlp = 3.8e-6;  // of 32
  for (int64_t i = 0; i < n; ++i) {
    const Tensor z = at::linear(all.batch.inputs[0].values[i].to(at::kDouble),
                                all.start.at("0.weight").tensor[i].to(at::kDouble));
    for (int64_t unit = 0; unit < 8; ++unit) {
      const double at = z[(i + unit) % rows][unit].item<double>();
      set_bias(all.start.at("0.bias").tensor[i], unit, -at + (unit % 2 ? 0.4 : 0.2) * kUlp, i);
    }
  }
  return all;
}

}  // namespace wide::training
