// Convolutions of one tap and of one channel each, against float64.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "engine/check/check.h"
#include "primitives/kernels/convolution/depthwise_convolution.h"
#include "primitives/kernels/convolution/pointwise_convolution.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::plain_convolutions_test {
namespace {

Tensor in_double(const Tensor& t) { return t.defined() ? t.to(at::kDouble) : Tensor(); }

/// One wide layer; `run` is the operator under test.
struct Layer {
  Tensor x, w, bias;
  Sizes stride, padding, dilation;
  int64_t groups = 1;
  std::function<Tensor(const Layer&)> run;

  Tensor made() const { return run(*this); }
  /// Every model by itself.
  Tensor expected() const {
    Tensors each;
    for (int64_t i = 0; i < x.size(0); ++i)
      each.push_back(at::convolution(in_double(x[i]), in_double(w[i]),
                                     bias.defined() ? in_double(bias[i]) : Tensor(), stride,
                                     padding, dilation, false, Sizes(stride.size(), 0), groups));
    return at::stack(each);
  }
};

std::optional<Tensor> maybe(const Tensor& t) {
  return t.defined() ? std::optional(t) : std::nullopt;
}

Layer pointwise(const Sizes& x, int64_t filters) {
  const size_t axes = x.size() - 3;
  Sizes w(axes + 3, 1);
  w[0] = x[0], w[1] = filters, w[2] = x[2];
  return {at::randn(x),
          at::randn(w),
          at::randn({x[0], filters}),
          Sizes(axes, 1),
          Sizes(axes, 0),
          Sizes(axes, 1),
          1,
          [](const Layer& l) { return pointwise_convolution(l.x, l.w, maybe(l.bias)); }};
}

/// Kernel, stride, padding and dilation of every axis.
using Axis = std::array<int64_t, 4>;

Layer depthwise(const Sizes& x, int64_t each, const std::vector<Axis>& axes) {
  Layer layer;
  Sizes w{x[0], x[2] * each, 1};
  for (const Axis& a : axes) {
    w.push_back(a[0]);
    layer.stride.push_back(a[1]);
    layer.padding.push_back(a[2]);
    layer.dilation.push_back(a[3]);
  }
  layer.x = at::randn(x);
  layer.w = at::randn(w);
  layer.bias = at::randn({w[0], w[1]});
  layer.groups = x[2];
  layer.run = [](const Layer& l) {
    Sizes output;
    for (size_t k = 0; k < l.stride.size(); ++k) {
      const auto axis = static_cast<int64_t>(k) + 3;
      output.push_back(
          (l.x.size(axis) + 2 * l.padding[k] - l.dilation[k] * (l.w.size(axis) - 1) - 1) /
              l.stride[k] +
          1);
    }
    return depthwise_convolution(l.x, l.w, maybe(l.bias),
                                 {l.stride, l.padding, l.dilation, output});
  };
  return layer;
}

/// Odd sizes of every kind, parts of vectors, positions far apart, more than one block of channels.
std::vector<Layer> layers() {
  std::vector<Layer> all{
      pointwise({1, 1, 1, 1}, 1),
      pointwise({3, 2, 5, 7}, 11),
      pointwise({2, 3, 24, 16, 16}, 48),
      pointwise({2, 1, 300, 5, 13}, 17),
      pointwise({2, 2, 9, 28, 31}, 3),
      pointwise({2, 1, 7, 3, 5, 7}, 19),
      depthwise({1, 1, 1, 1}, 1, {{1, 1, 0, 1}}),
      depthwise({2, 3, 5, 37}, 1, {{3, 1, 1, 1}}),
      depthwise({2, 2, 3, 50}, 2, {{4, 2, 3, 3}}),
      depthwise({2, 1, 3, 100}, 1, {{31, 1, 15, 1}}),
      depthwise({3, 2, 7, 16, 16}, 1, {{5, 1, 2, 1}, {5, 1, 2, 1}}),
      depthwise({2, 2, 5, 13, 29}, 3, {{3, 1, 1, 1}, {3, 1, 1, 1}}),
      depthwise({2, 1, 4, 19, 23}, 1, {{7, 1, 3, 1}, {7, 1, 3, 1}}),
      depthwise({2, 2, 3, 14, 33}, 1, {{3, 2, 1, 1}, {3, 2, 1, 1}}),
      depthwise({1, 2, 3, 11, 17}, 1, {{2, 1, 0, 3}, {4, 3, 5, 2}}),
      depthwise({1, 1, 2, 3, 3}, 1, {{3, 1, 4, 1}, {3, 1, 9, 1}}),  // results beyond the image
  };
  for (size_t k = 0; k < all.size(); k += 3) all[k].bias = Tensor();
  return all;
}

double error(const Tensor& y, const Tensor& expected) {
  return max_relative_error({y}, {expected});
}

TEST(PlainConvolutions, EqualEveryModelByItselfUnderEveryInstructionSet) {
  const at::NoGradGuard no_grad;
  for_each_target([](const std::string& target) {
    at::manual_seed(3);
    for (const Layer& layer : layers()) {
      const Tensor made = layer.made();
      EXPECT_EQ(made.sizes(), layer.expected().sizes());
      EXPECT_LT(error(made, layer.expected()), 1e-5) << target << " " << layer.x.sizes();
    }
  });
}

TEST(PlainConvolutions, TakeInputsInAnyLayout) {
  const at::NoGradGuard no_grad;
  at::manual_seed(4);
  for (Layer& layer : layers()) {
    const Tensor x = layer.x, expected = layer.expected();
    const int64_t last = x.dim() - 1;
    layer.x = x.movedim(2, last).contiguous().movedim(last, 2);  // channels innermost
    EXPECT_LT(error(layer.made(), expected), 1e-5) << x.sizes();
    layer.x = x.transpose(3, last).contiguous().transpose(3, last);
    EXPECT_LT(error(layer.made(), expected), 1e-5) << x.sizes();
    layer.x = at::repeat_interleave(x, 2, last).slice(last, 0, {}, 2);
    EXPECT_LT(error(layer.made(), expected), 1e-5) << x.sizes();
    layer.x = x.narrow(0, 0, 1).expand_as(x);  // one input for all models
    EXPECT_LT(error(layer.made(), layer.expected()), 1e-5) << x.sizes();
  }
}

TEST(PlainConvolutions, SumInOneOrderWhateverTheThreadsAndTheNeighbours) {
  const at::NoGradGuard no_grad;
  const int threads = at::get_num_threads();
  for_each_target([&](const std::string& target) {
    for (const Layer& layer : layers()) {
      at::set_num_threads(1);
      const Tensor one = layer.made();
      at::set_num_threads(2);
      EXPECT_TRUE(layer.made().equal(one)) << target << " " << layer.x.sizes();
      at::set_num_threads(threads);
      Layer last = layer;
      for (Tensor* t : {&last.x, &last.w, &last.bias})
        if (t->defined()) *t = t->narrow(0, t->size(0) - 1, 1);
      EXPECT_TRUE(last.made().equal(one.narrow(0, one.size(0) - 1, 1))) << target;
    }
  });
}

TEST(PlainConvolutions, NothingOfOneModelReachesAnother) {
  const at::NoGradGuard no_grad;
  for (const Layer& layer : layers()) {
    if (layer.x.size(0) < 2) continue;
    const Tensor before = layer.made();
    Layer poisoned = layer;
    for (Tensor* t : {&poisoned.x, &poisoned.w}) t->select(0, 1).fill_(NAN);
    const Tensor after = poisoned.made();
    EXPECT_TRUE(after.select(0, 0).equal(before.select(0, 0))) << layer.x.sizes();
    EXPECT_TRUE(after.select(0, 1).isnan().all().item<bool>() || layer.padding[0] > 0);
  }
}

Tensor call(const std::string& name, std::vector<c10::IValue> stack) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "");
  op.callBoxed(&stack);
  return stack[0].toTensor();
}

TEST(PlainConvolutions, AddAndActivateBehindTheSum) {
  const at::NoGradGuard no_grad;
  for_each_target([](const std::string& target) {
    const Layer one = pointwise({2, 3, 9, 5, 7}, 10);
    const Layer each = depthwise({2, 3, 5, 6, 21}, 2, {{3, 1, 1, 1}, {3, 1, 1, 1}});
    for (const std::string activation : {"none", "relu", "silu"})
      for (const bool adds : {false, true}) {
        const auto behind = [&](const Layer& layer, const Tensor& residual, const Tensor& made) {
          Tensor sum = layer.expected();
          if (adds) sum = sum + in_double(residual);
          if (activation == "relu") sum = at::relu(sum);
          if (activation == "silu") sum = at::silu(sum);
          EXPECT_LT(error(made, sum), 1e-5) << target << " " << activation << adds;
        };
        const auto residual = [&](const Layer& layer) {
          return at::randn(layer.expected().sizes().vec());
        };
        const Tensor r = residual(one), s = residual(each);
        behind(one, r,
               call("wide::pointwise_convolution",
                    {one.x, one.w, one.bias, adds ? c10::IValue(r) : c10::IValue(), activation,
                     "none"}));
        behind(each, s,
               call("wide::depthwise_convolution",
                    {each.x, each.w, each.bias, Sizes{1, 1}, Sizes{1, 1}, Sizes{1, 1}, Sizes{6, 21},
                     adds ? c10::IValue(s) : c10::IValue(), activation, "none"}));
      }
  });
}

TEST(PlainConvolutions, TakeEmptyBatchesAndRefuseGradientsAndWhatDoesNotFit) {
  for (Layer layer : {pointwise({2, 3, 5, 6, 7}, 4),
                      depthwise({2, 3, 5, 6, 7}, 1, {{3, 1, 1, 1}, {3, 1, 1, 1}})}) {
    const Tensor x = layer.x;
    layer.x = x.narrow(1, 0, 0);
    EXPECT_EQ(layer.made().size(1), 0);
    layer.x = x.narrow(2, 0, 3);
    EXPECT_ANY_THROW(layer.made());
    layer.x = x.clone().requires_grad_();
    EXPECT_ANY_THROW(layer.made().sum().backward());
  }
}

}  // namespace
}  // namespace wide::plain_convolutions_test
