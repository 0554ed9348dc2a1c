// Forward pass and gradients in two halves, against autograd on one model at a time.
#include "engine/lower/gradient_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/compile.h"
#include "engine/error.h"

namespace wide::gradient_model_test {
namespace {

/// Convolution, batch norm in training, pooling and a linear layer; two results, one of them a row
/// of whole numbers.
Network network() {
  Network net;
  net.name = "net";
  net.training = true;
  net.tensors = {{"x", Role::input, {5, 3, 6, 6}},
                 {"scale", Role::input, {4}},
                 {"conv", Role::parameter, {4, 3, 3, 3}, at::kFloat, Fill::normal, 0.3},
                 {"gamma", Role::parameter, {4}, at::kFloat, Fill::near_one},
                 {"beta", Role::parameter, {4}},
                 {"fc", Role::parameter, {2, 36}, at::kFloat, Fill::normal, 0.2},
                 {"unused", Role::parameter, {3}},
                 {"mean", Role::buffer, {4}},
                 {"var", Role::buffer, {4}, at::kFloat, Fill::positive}};
  net.forward = [](const Tensors& t) -> Tensors {
    Tensor h = at::conv2d(t[0], t[2], {}, 1, 1) * t[1].view({4, 1, 1});
    h = at::batch_norm(h, t[3], t[4], t[7], t[8], true, 0.1, 1e-5, false);
    h = at::max_pool2d(at::relu(h), 2).flatten(1);
    const Tensor y = at::linear(h, t[5]);
    return {y, y.argmax(1), h};
  };
  return net;
}

constexpr size_t kOf[] = {0, 1, 2, 3, 4, 5, 6};

/// Outputs, then gradients of `kOf` on one model's own tensors.
std::pair<Tensors, Tensors> expected(const Network& net, Tensors one, const Tensors& cotangents) {
  const at::AutoGradMode grad(true);
  Tensors of;
  for (const size_t i : kOf) of.push_back(one[i] = one[i].detach().clone().requires_grad_());
  for (const size_t i : {size_t{7}, size_t{8}}) one[i] = one[i].clone();
  const Tensors outputs = net.forward(one);
  return {outputs, torch::autograd::grad({outputs[0], outputs[2]}, of, cotangents, std::nullopt,
                                         false, /*allow_unused=*/true)};
}

double off(const Tensor& got, const Tensor& wanted) {
  return ((got - wanted).abs().max() / wanted.abs().max().clamp_min(1e-9)).item<double>();
}

struct Subject {
  Network net = network();
  Ensemble e;
  std::unique_ptr<GradientModel> model;

  Subject(int64_t n, int ranges, uint64_t seed = 3)
      : e(generate(net, n, at::kDouble, at::kCPU, seed)) {
    e.shared[1] = true;  // the scale is given once
    e.tensors[1] = e.tensors[1].select(0, 0).clone();
    CompileOptions options;
    options.threads = 2;
    options.ranges = ranges;
    options.tune = false;
    model = compile_gradients(net, e, {std::begin(kOf), std::end(kOf)},
                              record_single(net, e, /*grad=*/true), options);
  }

  Tensors cotangents(uint64_t seed) const {
    at::manual_seed(seed);
    const auto real = at::TensorOptions().dtype(at::kDouble);
    return {at::randn({e.n, 5, 2}, real), Tensor(), at::randn({e.n, 5, 36}, real)};
  }

  void check(const GradientModel::Forward& made, const Tensors& gradients,
             const Tensors& given) const {
    Tensor scale = at::zeros({4}, at::kDouble);
    for (int64_t i = 0; i < e.n; ++i) {
      const auto [outputs, wanted] =
          expected(net, e.model(i), {given[0].select(0, i), given[2].select(0, i)});
      for (const size_t k : {size_t{0}, size_t{2}})
        EXPECT_LT(off(made.outputs[k].select(0, i), outputs[k].detach()), 1e-12);
      EXPECT_TRUE(at::equal(made.outputs[1].select(0, i), outputs[1]));
      scale += wanted[1];
      for (const size_t k : {size_t{0}, size_t{2}, size_t{3}, size_t{4}, size_t{5}})
        EXPECT_LT(off(gradients[k].select(0, i), wanted[k]), 1e-10) << "gradient " << k;
    }
    EXPECT_LT(off(gradients[1], scale), 1e-10);
    EXPECT_FALSE(gradients[6].defined());
  }
};

/// Both passes, of ranges of two and of three models, take turns in the memory of each thread.
TEST(GradientModel, PassesShareAnArenaOfEachThread) {
  const Subject subject(5, 2);
  const std::string text = subject.model->plan_text(), word = "arena ";
  int64_t most = 0, sum = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const int64_t bytes = std::stoll(text.substr(at + word.size()));
    most = std::max(most, bytes);
    sum += bytes;
  }
  EXPECT_GE(subject.model->bytes(), 2 * most);
  EXPECT_LT(subject.model->bytes(), 2 * sum);
}

TEST(GradientModel, IsAutogradOfEveryModel) {
  for (const auto& [n, ranges] : {std::pair{1, 1}, {3, 1}, {5, 2}, {7, 7}, {7, 3}}) {
    const Subject s(n, ranges);
    EXPECT_EQ(s.model->differentiable(), (std::vector<bool>{true, false, true}));
    const auto made = s.model->forward(s.e.tensors);
    const Tensors given = s.cotangents(1);
    s.check(made, s.model->backward(s.e.tensors, made.outputs, made.saved, given), given);
  }
}

/// Bytes that a call of four models keeps for its backward pass, in float32.
int64_t saved_bytes(Network net) {
  const Ensemble e = generate(net, 4, at::kFloat, at::kCPU, 5);
  CompileOptions options;
  options.threads = options.ranges = 1;
  options.tune = false;
  const auto model =
      compile_gradients(net, e, {0, 1}, record_single(net, e, /*grad=*/true), options);
  return model->forward(e.tensors).saved.numel();
}

TEST(GradientModel, KeepsOfReluBeforeAPoolOnlyWhatIsPooled) {
  Network net;
  net.name = "pooled";
  net.tensors = {{"x", Role::input, {5, 3, 16, 16}}, {"w", Role::parameter, {8, 3, 3, 3}}};
  net.forward = [](const Tensors& t) -> Tensors {
    return {at::max_pool2d(at::relu(at::conv2d(t[0], t[1], {}, 1, 1)), 2).cos()};
  };
  const int64_t pooled = 4 * 5 * 8 * 64, input = 4 * 5 * 3 * 256;
  // float32 twice (pooled, and behind relu), places as bytes, and at most a copy of the input.
  EXPECT_LE(saved_bytes(net), pooled * (2 * 4 + 1) + input * 4 + 1024);
}

TEST(GradientModel, KeepsACopyWithoutWhatWasCopied) {
  Network net;
  net.name = "copied";
  net.tensors = {{"x", Role::input, {5, 24, 6}}, {"w", Role::parameter, {24, 6}}};
  net.forward = [](const Tensors& t) -> Tensors {
    return {at::cumsum(t[0] * t[1], 1).transpose(1, 2).clone(at::MemoryFormat::Contiguous).pow(3)};
  };
  EXPECT_EQ(saved_bytes(net), 4 * 5 * 24 * 6 * 4);
}

TEST(GradientModel, PassesMayBeAliveInAnyNumberAndOrder) {
  Subject s(5, 2);
  Ensemble other = s.e;
  other.tensors[0] = s.e.tensors[0].flip(0);
  const auto first = s.model->forward(s.e.tensors);
  const auto second = s.model->forward(other.tensors);
  const Tensors one = s.cotangents(1), two = s.cotangents(2);
  const Tensors of_second = s.model->backward(other.tensors, second.outputs, second.saved, two);
  const Tensors of_first = s.model->backward(s.e.tensors, first.outputs, first.saved, one);
  s.check(first, of_first, one);
  std::swap(s.e, other);
  s.check(second, of_second, two);
}

TEST(GradientModel, SaysWhatItReads) {
  const Subject s(3, 1);
  const auto made = s.model->forward(s.e.tensors);
  Tensors bound = s.e.tensors, outputs = made.outputs;
  for (size_t i = 0; i < bound.size(); ++i)
    if (!s.model->reads()[i]) bound[i] = Tensor();
  for (size_t k = 0; k < outputs.size(); ++k)
    if (!s.model->reads_output()[k]) outputs[k] = Tensor();
  EXPECT_FALSE(bound[6].defined());  // unused
  EXPECT_FALSE(bound[4].defined());  // beta
  const Tensors given = s.cotangents(1);
  s.check(made, s.model->backward(bound, outputs, made.saved, given), given);
}

TEST(GradientModel, RefusesOperatorsWithoutAGradient) {
  Network net = network();
  net.tensors = {{"x", Role::input, {4}}};
  net.training = false;
  net.forward = [](const Tensors& t) -> Tensors {
    const Tensor z = at::complex(t[0], t[0]);
    return {at::slice_scatter(z, z.narrow(0, 0, 2), 0, 0, 2).abs()};
  };
  const Ensemble e = generate(net, 2, at::kFloat, at::kCPU, 3);
  EXPECT_THROW(compile_gradients(net, e, {0}, record_single(net, e, true), {}), Unsupported);
}

}  // namespace
}  // namespace wide::gradient_model_test
