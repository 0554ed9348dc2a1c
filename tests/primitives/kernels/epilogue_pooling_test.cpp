// What kernels do to their results while they are in cache: sums, activations, pooling.
#include "primitives/kernels/pointwise/epilogue.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include "engine/check/check.h"
#include "primitives/kernels/convolution/direct_convolution.h"
#include "primitives/kernels/convolution/winograd.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::epilogue_pooling_test {
namespace {

using at::Tensor;

struct Case {
  const char *activation, *then;
  bool adds;
};

constexpr Case kCases[] = {{"none", "none", false}, {"relu", "none", false},
                           {"silu", "none", false}, {"sigmoid", "none", false},
                           {"relu", "none", true},  {"none", "none", true},
                           {"none", "gelu", false}, {"none", "relu", true}};

Tensor in_double(const std::string& activation, const Tensor& x) {
  if (activation == "relu") return at::relu(x);
  if (activation == "silu") return at::silu(x);
  if (activation == "gelu") return at::gelu(x);
  return activation == "sigmoid" ? at::sigmoid(x) : x;
}

Tensor pooled(const Tensor& x, const Pooling& p) {
  const auto list = [](const int64_t(&two)[2]) { return Sizes{two[0], two[1]}; };
  const PoolWindow& w = p.window;
  return w.average ? at::avg_pool2d(x, list(w.kernel), list(w.stride), list(w.padding))
                   : at::max_pool2d(x, list(w.kernel), list(w.stride), list(w.padding),
                                    list(w.dilation), p.shape.oh * w.stride[0] > p.shape.h);
}

/// x `[N, B, C, H, W]`, w `[N, O, C or 1, k, k]`, convolutions that keep the image's size; N = 2.
struct Layer {
  std::string name;
  Tensor x, w, b;
  int64_t tile = 0;  // of winograd

  /// Patches of 8 round more.
  double most_error() const { return tile == 4 && w.size(-1) == 5 ? 4e-5 : 1e-5; }

  Tensor convolved() const {
    Tensors rows;
    const int64_t groups = x.size(2) / w.size(2), side = w.size(-1) / 2;
    for (int64_t i = 0; i < 2; ++i)
      rows.push_back(at::conv2d(x[i].to(at::kDouble), w[i].to(at::kDouble), b[i].to(at::kDouble),
                                at::IntArrayRef({1, 1}), at::IntArrayRef({side, side}),
                                at::IntArrayRef({1, 1}), groups));
    return at::stack(rows);
  }

  /// Into memory with a margin, which is to be left alone.
  Tensor made(const Case& c, const Tensor& residual, const Pooling& p) const {
    const int64_t k = w.size(-1), filters = w.size(1), planes = 2 * x.size(1) * filters;
    const Tensor memory = at::full({planes * p.results() + 32}, -77.0F);
    Tensor out = memory.narrow(0, 16, planes * p.results())
                     .view({planes / filters, filters, p.shape.oh, p.shape.ow});
    const Sizes same{k / 2, k / 2}, ones{1, 1}, sizes{x.size(3), x.size(4)};
    const std::string pool =
        p.text() + (c.then == std::string("none") ? "" : std::string(" then ") + c.then);
    std::vector<c10::IValue> stack;
    if (name == "direct")
      stack = {x,    pack_filters(w, 1, false), b, filters, Sizes{k, k}, ones, same, ones, sizes, 1,
               false};
    else if (name == "winograd")
      stack = {x, winograd_filters(w, tile), b, filters, same, k, tile};
    else if (name == "depthwise")
      stack = {x, w, b, ones, same, ones, sizes};
    else
      stack = {x, w, b};
    stack.emplace_back(c.adds ? c10::IValue(residual) : c10::IValue());
    stack.insert(stack.end(), {c.activation, pool, out});
    c10::Dispatcher::singleton()
        .findSchemaOrThrow(("wide::" + name + "_convolution").c_str(), "out")
        .callBoxed(&stack);
    EXPECT_TRUE((memory.narrow(0, 0, 16) == -77).all().item<bool>() &&
                (memory.narrow(0, memory.numel() - 16, 16) == -77).all().item<bool>())
        << name;
    return out;
  }
};

Pooling pooling(bool average, int64_t kernel, int64_t stride, int64_t padding, const Tensor& x,
                bool ceil = false) {
  const auto size = [&](int64_t in) {
    const int64_t room = in + 2 * padding - kernel;
    if (room < 0) return int64_t{0};
    return (ceil ? room + stride - 1 : room) / stride + 1;
  };
  return {{{kernel, kernel}, {stride, stride}, {padding, padding}, {1, 1}, average},
          {x.size(2), x.size(3), x.size(4), size(x.size(3)), size(x.size(4))}};
}

/// Two models, each in its own image, beside float64.
void check(const Layer& layer, const Pooling& p, const std::string& target) {
  const Tensor exact = layer.convolved(), residual = at::randn(exact.sizes());
  for (const Case& c : kCases) {
    Tensor expected = c.adds ? exact + residual.to(at::kDouble) : exact;
    expected = pooled(in_double(c.activation, expected).flatten(0, 1), p);
    expected = in_double(c.then, expected);
    const double error = max_relative_error({layer.made(c, residual, p)}, {expected});
    EXPECT_LT(error, layer.most_error())
        << layer.name << layer.tile << " " << layer.x.sizes() << " " << p.text() << " "
        << c.activation << c.adds << c.then << " under " << target;
  }
}

/// Images of one row, odd ones, and some whose tiles are cut over several chunks.
const Sizes kImages[] = {{1, 3}, {7, 7}, {9, 40}, {14, 14}, {12, 103}};

TEST(KernelEpilogue, PoolsSquaresBehindEveryConvolution) {
  const at::NoGradGuard no_grad;
  at::manual_seed(1);
  for_each_target([](const std::string& target) {
    for (const Sizes& image : kImages) {
      const int64_t h = image[0], w = image[1];
      const Tensor x = at::randn({2, 3, 9, h, w}), b = at::randn({2, 11}), d = at::randn({2, 9});
      for (const bool average : {false, true}) {
        const Pooling squares = pooling(average, 2, 2, 0, x);
        if (squares.results() == 0) continue;
        check({"direct", x, at::randn({2, 11, 9, 3, 3}), b}, squares, target);
        for (const auto& [kernel, tile] : {std::pair{3, 2}, {3, 4}, {5, 2}, {5, 4}})
          check({"winograd", x, at::randn({2, 11, 9, kernel, kernel}), b, tile}, squares, target);
        check({"pointwise", x, at::randn({2, 11, 9, 1, 1}), b}, squares, target);
        check({"depthwise", x, at::randn({2, 9, 1, 3, 3}), d}, squares, target);
      }
    }
  });
}

TEST(KernelEpilogue, PoolsOtherWindows) {
  const at::NoGradGuard no_grad;
  at::manual_seed(2);
  for_each_target([](const std::string& target) {
    const Tensor x = at::randn({2, 2, 5, 9, 21}), b = at::randn({2, 6}), d = at::randn({2, 5});
    for (const Pooling& p :
         {pooling(false, 3, 2, 1, x), pooling(true, 3, 2, 1, x), pooling(false, 2, 2, 0, x, true),
          pooling(true, 3, 3, 0, x), pooling(false, 3, 1, 1, x)}) {
      check({"direct", x, at::randn({2, 6, 5, 3, 3}), b}, p, target);
      check({"pointwise", x, at::randn({2, 6, 5, 1, 1}), b}, p, target);
      check({"depthwise", x, at::randn({2, 5, 1, 3, 3}), d}, p, target);
    }
  });
}

/// One that is not a number makes its window so, and no other.
TEST(KernelEpilogue, KeepsNan) {
  const at::NoGradGuard no_grad;
  for_each_target([](const std::string& target) {
    for (const int64_t tile : {0, 2, 4}) {
      Tensor x = at::randn({2, 1, 8, 12, 12});
      x[1][0][3][5][6] = NAN;
      const Pooling p = pooling(false, 2, 2, 0, x);
      const Layer layer{tile == 0 ? "direct" : "winograd", x, at::randn({2, 8, 8, 3, 3}),
                        at::randn({2, 8}), tile};
      for (const char* activation : {"none", "relu", "sigmoid"}) {
        const Tensor y = layer.made({activation, "none", false}, {}, p);
        EXPECT_FALSE(y[0].isnan().any().item<bool>()) << target;
        EXPECT_TRUE(y[1].narrow(1, 2, 2).narrow(2, 2, 2).isnan().all().item<bool>())
            << target << tile << activation;
        EXPECT_FALSE(y[1].select(1, 0).isnan().any().item<bool>()) << target;
      }
    }
  });
}

/// Where activations make NaN of infinity, and where a window lies in the padding alone.
TEST(KernelEpilogue, KeepsWhatTheGreatestWouldHide) {
  const at::NoGradGuard no_grad;
  for_each_target([](const std::string& target) {
    Tensor x = at::randn({2, 1, 2, 5, 6});
    x[1][0][0][3][4] = -INFINITY;
    const Pooling squares = pooling(false, 2, 2, 0, x);
    const Pooling sparse{{{1, 2}, {1, 1}, {0, 1}, {1, 7}, false}, {2, 5, 6, 5, 1}};
    const Layer layer{"depthwise", x, at::full({2, 2, 1, 1, 1}, 2.0F), at::zeros({2, 2})};
    const Tensor exact = at::cat({x[0], x[1]}) * 2;
    for (const char* text : {"leaky_relu 0", "elu 1 1 0", "tanh", "sigmoid", "relu"})
      for (const Pooling& p : {squares, sparse}) {
        Tensor y = exact.clone();
        activations::run(*activations::find(text), y.mutable_data_ptr<float>(), y.numel());
        EXPECT_TRUE(at::allclose(layer.made({text, "none", false}, {}, p), pooled(y, p), 1e-6, 0,
                                 /*equal_nan=*/true))
            << target << " " << text << " " << p.text();
      }
  });
}

TEST(KernelEpilogue, ReadsAndWritesPoolings) {
  const Tensor x = at::empty({1, 1, 1, 9, 21});
  for (const Pooling& p : {pooling(false, 3, 2, 1, x), pooling(true, 2, 2, 0, x)}) {
    const Pooling again = Pooling::parse(p.text());
    EXPECT_EQ(again.text(), p.text());
    EXPECT_EQ(again.window.average, p.window.average);
    EXPECT_EQ(again.results(), p.results());
  }
  EXPECT_EQ(pooling(false, 3, 2, 1, x).text(), "max_pool 3 3 2 2 1 1 1 1 9 21 5 11");
  for (const char* text : {"", "max_pool", "max_pool 3 3 2 2 1 1 1 1 9 21 5", "min_pool 1 1"})
    EXPECT_THROW(Pooling::parse(text), c10::Error) << text;
}

}  // namespace
}  // namespace wide::epilogue_pooling_test
