#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/train/trainer.h"

namespace wide::training {

/// A network with two forms for the tests, as code over one model's tensors.
struct Subject {
  std::string name;
  Sizes row;  // of one row of the input
  std::vector<TensorSpec> tensors;
  std::function<Tensor(const Tensor& x, const Tensors& weights, bool train)> forward;
};

inline TensorSpec weight(std::string name, Sizes sizes, double scale = 0.3) {
  return {std::move(name), Role::parameter, std::move(sizes), at::kFloat, Fill::normal, scale};
}
inline TensorSpec gain(std::string name, int64_t size) {
  return {std::move(name), Role::parameter, {size}, at::kFloat, Fill::near_one};
}
inline TensorSpec moving(std::string name, int64_t size, Fill fill) {
  return {std::move(name), Role::buffer, {size}, at::kFloat, fill};
}

/// No parameter of it has a gradient that is zero but for rounding.
inline Subject mlp() {
  return {"mlp",
          {6},
          {weight("0.weight", {7, 6}), weight("0.bias", {7}), weight("1.weight", {5, 7}),
           weight("1.bias", {5})},
          [](const Tensor& x, const Tensors& w, bool) {
            return at::linear(at::tanh(at::linear(x, w[0], w[1])), w[2], w[3]);
          }};
}

inline Subject lenet() {
  return {
      "lenet",
      {1, 10, 10},
      {weight("c1.weight", {3, 1, 3, 3}), weight("c1.bias", {3}), weight("c2.weight", {4, 3, 3, 3}),
       weight("c2.bias", {4}), weight("fc.weight", {5, 16}), weight("fc.bias", {5})},
      [](const Tensor& x, const Tensors& w, bool) {
        Tensor h = at::max_pool2d(at::relu(at::conv2d(x, w[0], w[1])), 2);
        h = at::avg_pool2d(at::tanh(at::conv2d(h, w[2], w[3], 1, 1)), 2);
        return at::linear(h.flatten(1), w[4], w[5]);
      }};
}

inline Subject batch_norm_net() {
  return {"batch norm",
          {3, 5, 5},
          {weight("conv.weight", {4, 3, 3, 3}),
           gain("bn.weight", 4),
           weight("bn.bias", {4}),
           weight("fc.weight", {5, 36}),
           weight("fc.bias", {5}),
           moving("bn.running_mean", 4, Fill::normal),
           moving("bn.running_var", 4, Fill::positive),
           {"bn.num_batches_tracked", Role::buffer, {}, at::kLong, Fill::integers, 5.0}},
          [](const Tensor& x, const Tensors& w, bool train) {
            if (train) w[7].add_(1);
            Tensor h = at::conv2d(x, w[0]);
            h = at::batch_norm(h, w[1], w[2], w[5], w[6], train, 0.1, 1e-5, false);
            return at::linear(at::relu(h).flatten(1), w[3], w[4]);
          }};
}

inline Subject transformer() {
  constexpr int64_t kD = 8, kHeads = 2;
  return {
      "transformer",
      {4, kD},
      {gain("n1.weight", kD), weight("n1.bias", {kD}), weight("qkv.weight", {3 * kD, kD}),
       weight("out.weight", {kD, kD}), gain("n2.weight", kD), weight("n2.bias", {kD}),
       weight("up.weight", {2 * kD, kD}), weight("up.bias", {2 * kD}),
       weight("down.weight", {kD, 2 * kD}), weight("head.weight", {5, kD})},
      [](const Tensor& x, const Tensors& w, bool) {
        const int64_t b = x.size(0), t = x.size(1);
        const auto heads = [&](const Tensor& y) {
          return y.view({b, t, kHeads, kD / kHeads}).transpose(1, 2);
        };
        const auto qkv = at::linear(at::layer_norm(x, {kD}, w[0], w[1]), w[2]).chunk(3, /*dim=*/-1);
        Tensor a = at::scaled_dot_product_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]));
        Tensor h = x + at::linear(a.transpose(1, 2).reshape({b, t, kD}), w[3]);
        const Tensor m = at::linear(at::layer_norm(h, {kD}, w[4], w[5]), w[6], w[7]);
        h = h + at::linear(at::gelu(m), w[8]);
        return at::linear(h.mean(1), w[9]);
      }};
}

inline Subject lstm() {
  constexpr int64_t kH = 4;
  return {"lstm",
          {3, 6},
          {weight("w_ih", {4 * kH, 6}), weight("w_hh", {4 * kH, kH}), weight("b_ih", {4 * kH}),
           weight("b_hh", {4 * kH}), weight("fc.weight", {5, kH}), weight("fc.bias", {5})},
          [](const Tensor& x, const Tensors& w, bool train) {
            const Tensor zero = at::zeros({1, x.size(0), kH}, x.options());
            const auto [y, h, c] = at::lstm(x, {zero, zero}, {w[0], w[1], w[2], w[3]}, true, 1, 0.0,
                                            train, false, true);
            return at::linear(y.select(1, -1), w[4], w[5]);
          }};
}

inline std::vector<Subject> subjects() {
  return {mlp(), lenet(), batch_norm_net(), transformer(), lstm()};
}

inline NetworkSource source(const Subject& s, bool train) {
  return [s, train](const std::vector<TensorSpec>& inputs) {
    Network net;
    net.name = s.name;
    net.tensors = inputs;
    net.tensors.insert(net.tensors.end(), s.tensors.begin(), s.tensors.end());
    net.forward = [s, train](const Tensors& t) {
      return Tensors{s.forward(t[0], Tensors(t.begin() + 1, t.end()), train)};
    };
    return net;
  };
}

inline Forms forms(const Subject& s) { return {source(s, true), source(s, false), s.tensors}; }

/// Different weights for every model.
inline std::map<std::string, StartTensor> start(const Subject& s, int64_t n, at::ScalarType dtype,
                                                uint64_t seed = 3) {
  Network net;
  net.tensors = s.tensors;
  const Ensemble e = generate(net, n, dtype, c10::kCPU, seed);
  std::map<std::string, StartTensor> all;
  for (size_t k = 0; k < s.tensors.size(); ++k) all[s.tensors[k].name] = {e.tensors[k], false};
  return all;
}

inline Tensors own_weights(const Subject& s, const std::map<std::string, StartTensor>& start,
                           int64_t model) {
  Tensors own;
  for (const TensorSpec& spec : s.tensors) {
    const auto& [tensor, shared] = start.at(spec.name);
    own.push_back((shared ? tensor : tensor[model]).clone());
  }
  return own;
}

inline Tensor random(Sizes sizes, at::ScalarType dtype, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed),
                   at::TensorOptions().dtype(at::kDouble))
      .to(dtype);
}

inline Tensor classes(Sizes sizes, int64_t count, uint64_t seed) {
  return at::randint(0, count, sizes, at::make_generator<at::CPUGeneratorImpl>(seed),
                     at::TensorOptions().dtype(at::kLong));
}

/// Inputs and classes of their own for every model.
inline Batch batch(const Subject& s, int64_t n, int64_t rows, at::ScalarType dtype, uint64_t seed) {
  Sizes sizes{n, rows};
  sizes.insert(sizes.end(), s.row.begin(), s.row.end());
  Batch b;
  b.inputs = {{random(sizes, dtype, seed), false, {}, {}}};
  b.target = {classes({n, rows}, 5, seed + 1), false, {}, {}};
  return b;
}

inline void expect_same_bits(const std::map<std::string, Tensor>& a,
                             const std::map<std::string, Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, t] : a) {
    const Tensor x = t.contiguous(), y = b.at(name).contiguous();
    ASSERT_EQ(x.nbytes(), y.nbytes());
    EXPECT_EQ(std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()), 0) << name;
  }
}

}  // namespace wide::training
