#include "primitives/kernels/convolution/winograd.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/measure/roofline.h"
#include "primitives/kernels/convolution/winograd_transforms.h"
#include "primitives/kernels/operators.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::winograd_test {
namespace {

using winograd::Basis;

constexpr Basis kBases[] = {{3, 2}, {3, 4}, {5, 2}, {5, 4}};

/// Of sums of several hundred products at most.
double most_error(const Basis& basis) { return basis.patch() == 8 ? 4e-5 : 1e-5; }

/// One wide layer and its tensors, float32.
struct Layer {
  Basis basis;
  Tensor x, weight, bias;
  Sizes padding;

  Layer(const Basis& b, const Sizes& x_sizes, int64_t filters, Sizes pads)
      : basis(b),
        x(at::randn(x_sizes)),
        weight(at::randn({x_sizes[0], filters, x_sizes[2], b.kernel, b.kernel})),
        bias(at::randn({x_sizes[0], filters})),
        padding(std::move(pads)) {}

  Tensor winograd(bool with_bias = true) const {
    return winograd_convolution(x, weight, with_bias ? std::optional(bias) : std::nullopt, padding,
                                basis.results);
  }
  /// Every model by itself.
  Tensor expected(at::ScalarType dtype, bool with_bias = true) const {
    Tensors each;
    for (int64_t i = 0; i < x.size(0); ++i)
      each.push_back(at::conv2d(x[i].to(dtype), weight[i].to(dtype),
                                with_bias ? bias[i].to(dtype) : Tensor(), 1, padding));
    return at::stack(each);
  }
};

TEST(Winograd, EqualsEveryModelByItself) {
  const at::NoGradGuard no_grad;
  std::mt19937_64 random(5);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  // Sizes cross those of tiles, runs and chunks; small images share a chunk, wide rows fill many.
  for (int tried = 0; tried < 300;) {
    const Basis& basis = kBases[tried % 4];
    const int64_t most = tried % 10 == 0 ? 130 : 20;
    const Sizes pads{pick(0, 4), pick(0, 4)};
    const Sizes sizes{pick(1, 4), pick(1, 6), pick(1, 19), pick(1, 12), pick(1, most)};
    if (sizes[3] + 2 * pads[0] < basis.kernel || sizes[4] + 2 * pads[1] < basis.kernel) continue;
    ++tried;
    const Layer layer(basis, sizes, pick(1, 19), pads);
    EXPECT_LT(max_relative_error({layer.winograd()}, {layer.expected(at::kDouble)}),
              most_error(basis))
        << layer.x.sizes() << " " << layer.weight.sizes() << " padding " << layer.padding
        << " tile " << basis.results;
    const Tensor bare = layer.expected(at::kDouble, false);
    EXPECT_LE((layer.winograd(false) - bare).abs().max().item<double>(),
              most_error(basis) * (1 + bare.abs().max().item<double>()));
  }
}

TEST(Winograd, CountsTheProductsOfWholeRunsAndHalfBlocks) {
  const at::NoGradGuard no_grad;
  const Layer layer({3, 4}, {2, 3, 5, 9, 9}, 6, {1, 1});
  const Program program =
      record({{"x", Role::input, layer.x}, {"w", Role::parameter, layer.weight}},
             [&](const Tensors& t) -> Tensors {
               return {winograd_convolution(t[0], t[1], std::nullopt, layer.padding, 4)};
             });
  int seen = 0;
  for (const Node& node : program.nodes) {
    if (node.name().rfind("wide::winograd_convolution", 0) != 0) continue;
    ++seen;
    const StepWork work = work_of(program, node);
    EXPECT_EQ(work.flops, 2.0 * 2 * 3 * 6 * (9 * 9) * 5 * (3 * 3));
    // 3 images of 3 x 3 tiles: 27, in 2 runs of 16; 6 filters in two halves of 4; 6 x 6
    // frequencies.
    EXPECT_EQ(work.computed_flops, 2.0 * 2 * 32 * 5 * 8 * 36);
  }
  EXPECT_EQ(seen, 1);
}

TEST(Winograd, EqualsDoubleUnderEveryInstructionSet) {
  const at::NoGradGuard no_grad;
  for_each_target([](const std::string& target) {
    for (const Basis& basis : kBases)
      for (const Sizes& x : {Sizes{2, 3, 5, 19, 23}, {1, 1, 9, 3, 130}, {2, 2, 1, 4, 3}}) {
        const Layer layer(basis, x, 11, {1, 2});
        EXPECT_LT(max_relative_error({layer.winograd()}, {layer.expected(at::kDouble)}),
                  most_error(basis))
            << target << " " << x << " " << basis.kernel << " " << basis.results;
      }
  });
}

/// Times what the plain sum in float32 rounds.
TEST(Winograd, RoundsLittleMoreThanThePlainSum) {
  const at::NoGradGuard no_grad;
  for (const Basis& basis : kBases) {
    const Layer layer(basis, {3, 2, 64, 16, 16}, 64, {1, 1});
    const Tensors exact{layer.expected(at::kDouble)};
    const double plain = max_relative_error({layer.expected(at::kFloat)}, exact);
    EXPECT_GT(plain, 0);
    EXPECT_LT(max_relative_error({layer.winograd()}, exact), (basis.patch() == 4 ? 6 : 20) * plain)
        << basis.kernel << " " << basis.results;
  }
}

TEST(Winograd, TakesInputsInAnyLayout) {
  const at::NoGradGuard no_grad;
  Layer layer({3, 4}, {3, 2, 9, 9, 19}, 10, {1, 1});
  const Tensor expected = layer.winograd();
  layer.x = layer.x.permute({4, 1, 3, 0, 2}).contiguous().permute({3, 1, 4, 2, 0});
  EXPECT_TRUE(layer.winograd().equal(expected));
  layer.x = layer.x.select(0, 1).unsqueeze(0).expand_as(layer.x);  // one input for all models
  EXPECT_TRUE(layer.winograd().select(0, 1).equal(expected.select(0, 1)));
}

TEST(Winograd, NothingOfOneModelReachesAnother) {
  const at::NoGradGuard no_grad;
  const Layer layer({3, 4}, {3, 2, 9, 9, 19}, 10, {1, 1});
  const Tensor before = layer.winograd();
  for (int64_t sick = 0; sick < 3; ++sick) {
    Layer poisoned = layer;
    for (Tensor* t : {&poisoned.x, &poisoned.weight, &poisoned.bias}) {
      *t = t->clone();
      t->select(0, sick).fill_(NAN);
    }
    const Tensor after = poisoned.winograd();
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(before.select(0, i).equal(after.select(0, i)), i != sick);
  }
}

TEST(Winograd, RefusesGradientsAndWhatDoesNotFit) {
  Layer layer({3, 2}, {2, 2, 9, 5, 6}, 8, {1, 1});
  const auto with_filters = [&](const Tensor& filters, int64_t out_channels) {
    return kernels::call("winograd_convolution",
                         {layer.x, filters, c10::IValue(), out_channels, layer.padding, 3, 2,
                          c10::IValue(), "none", "none"});
  };
  EXPECT_NO_THROW(with_filters(winograd_filters(layer.weight, 2), 8));
  EXPECT_ANY_THROW(with_filters(layer.weight, 8));
  EXPECT_ANY_THROW(with_filters(winograd_filters(layer.weight, 4), 8));
  EXPECT_ANY_THROW(with_filters(winograd_filters(layer.weight, 2), 17));
  EXPECT_ANY_THROW(winograd_convolution(layer.x, layer.weight, std::nullopt, {1, 1}, 3));
  layer.padding = {1};
  EXPECT_ANY_THROW(layer.winograd());
  layer.padding = {1, 1};
  layer.x.requires_grad_();
  EXPECT_ANY_THROW(layer.winograd().sum().backward());
}

/// In a plan it does the relu behind it, and NaN goes through.
TEST(Winograd, DoesTheReluBehindIt) {
  const at::NoGradGuard no_grad;
  Network net;
  net.name = "conv-relu";
  net.tensors = {{"w", Role::parameter, {11, 9, 3, 3}}, {"x", Role::input, {2, 9, 7, 8}}};
  net.forward = [](const Tensors& t) {
    return Tensors{at::relu(at::conv2d(t[1], t[0], {}, 1, 1))};
  };
  net.instantiate = [net](const Tensors& weights) { return bind(net, weights); };
  Ensemble ensemble = generate(net, 3, at::kFloat, at::kCPU, 1);
  CompileOptions options;
  options.widen.force["conv2d"] = "winograd";
  auto model = compile(net, ensemble, options);
  EXPECT_NE(model->plan_text().find("wide::winograd_convolution.out with relu"), std::string::npos)
      << model->plan_text();
  const Program single = record_single(net, ensemble);
  EXPECT_LT(max_relative_error(as_function(*model, net)(ensemble), in_double(single, ensemble)),
            1e-5);
  ensemble.tensors[1].fill_(NAN);
  EXPECT_TRUE(model->run({ensemble.tensors[1]})[0].isnan().all().item<bool>());
}

}  // namespace
}  // namespace wide::winograd_test
