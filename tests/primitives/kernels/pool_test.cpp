// Max pooling without indices beside ATen's, which is exact, and average pooling beside float64,
// under every instruction set.
#include "primitives/kernels/pooling/pool.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/measure/roofline.h"
#include "primitives/kernels/pooling/adaptive_pool.h"
#include "tests/primitives/kernels/called_operators.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::pool_test {
namespace {

using at::Tensor;

std::vector<int64_t> list(const int64_t (&two)[2]) { return {two[0], two[1]}; }

Tensor aten(const Tensor& x, const PoolWindow& p, bool ceil) {
  return std::get<0>(at::max_pool2d_with_indices(x, list(p.kernel), list(p.stride), list(p.padding),
                                                 list(p.dilation), ceil));
}

bool same(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() &&
         at::allclose(a, b, 0, 0, /*equal_nan=*/true);
}

const std::vector<PoolWindow>& windows() {
  static const std::vector<PoolWindow> all{
      {{2, 2}, {2, 2}, {0, 0}, {1, 1}}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, {{2, 3}, {3, 1}, {1, 0}, {1, 2}},
      {{1, 5}, {1, 4}, {0, 2}, {1, 1}}, {{3, 2}, {2, 3}, {1, 1}, {2, 1}},
      {{2, 2}, {5, 5}, {1, 1}, {3, 3}}};
  return all;
}

/// Dilated windows, of which some lie in the padding alone.
TEST(MaxPool, OfNothingIsTheLeast) {
  const at::NoGradGuard guard;
  at::manual_seed(3);
  for (const std::vector<int64_t>& size : {std::vector<int64_t>{2, 3, 6, 5}, {2, 1, 6, 5}})
    for (const PoolWindow& p :
         {PoolWindow{{2, 1}, {1, 1}, {1, 0}, {7, 1}}, PoolWindow{{1, 2}, {1, 1}, {0, 1}, {1, 6}}}) {
      const Tensor x = at::randn(size), last = x.contiguous(at::MemoryFormat::ChannelsLast);
      for_each_target([&](const std::string& target) {
        const Tensor expected = aten(x, p, false);
        EXPECT_TRUE(expected.isneginf().any().item<bool>());
        EXPECT_TRUE(at::allclose(max_pool(x, p, false), expected, 0, 0)) << target;
        EXPECT_TRUE(at::allclose(max_pool(last, p, false), expected, 0, 0)) << target;
      });
    }
}

TEST(MaxPool, EqualsAtenInEveryLayout) {
  const at::NoGradGuard guard;
  at::manual_seed(1);
  const std::vector<std::vector<int64_t>> sizes{{2, 3, 7, 9},   {1, 16, 8, 40}, {3, 17, 28, 28},
                                                {2, 1, 5, 131}, {1, 37, 6, 5},  {2, 3, 6, 5},
                                                {2, 1, 6, 5}};
  for (const auto& size : sizes) {
    Tensor x = at::randn(size);
    x.flatten().slice(0, 3, 40, 19).fill_(NAN);
    x.flatten().slice(0, 5, 60, 23).fill_(-INFINITY);
    const Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
    const Tensor strange = x.permute({1, 0, 3, 2}).contiguous().permute({1, 0, 3, 2});
    for (const PoolWindow& p : windows())
      for (const bool ceil : {false, true}) {
        const Tensor expected = aten(x, p, ceil), expected_last = aten(last, p, ceil);
        for_each_target([&](const std::string& target) {
          EXPECT_TRUE(same(max_pool(x, p, ceil), expected)) << x.sizes() << " under " << target;
          EXPECT_TRUE(same(max_pool(last, p, ceil), expected_last)) << x.sizes() << target;
          EXPECT_TRUE(at::allclose(max_pool(strange, p, ceil), expected, 0, 0, true)) << target;
        });
      }
  }
}

TEST(AveragePool, EqualsDoubleInEveryLayout) {
  const at::NoGradGuard guard;
  at::manual_seed(4);
  const std::vector<std::vector<int64_t>> sizes{{2, 3, 7, 9},   {1, 16, 8, 40}, {3, 17, 28, 28},
                                                {2, 1, 5, 131}, {1, 37, 6, 5},  {0, 3, 8, 8}};
  for (const auto& size : sizes) {
    const Tensor x = at::randn(size), last = x.contiguous(at::MemoryFormat::ChannelsLast);
    const Tensor strange = x.permute({1, 0, 3, 2}).contiguous().permute({1, 0, 3, 2});
    for (PoolWindow p : windows()) {
      p.dilation[0] = p.dilation[1] = 1;
      const Tensor expected =
          at::avg_pool2d(x.to(at::kDouble), list(p.kernel), list(p.stride), list(p.padding));
      for_each_target([&](const std::string& target) {
        for (const Tensor& t : {x, last, strange})
          EXPECT_TRUE(at::allclose(average_pool(t, p).to(at::kDouble), expected, 1e-5, 1e-6))
              << t.sizes() << t.strides() << " under " << target;
      });
    }
  }
}

TEST(AveragePool, NanStaysInItsPlanesAndThreadsChangeNothing) {
  const at::NoGradGuard guard;
  at::manual_seed(5);
  const int threads = at::get_num_threads();
  for (const PoolWindow& p : {windows()[0], windows()[1]})
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const Tensor x = at::randn({7, 12, 31, 30}).contiguous(format);
      Tensor broken = x.clone();
      broken.narrow(1, 4, 4).fill_(NAN);
      at::set_num_threads(1);
      const Tensor right = average_pool(x, p);
      at::set_num_threads(2);
      EXPECT_TRUE(average_pool(x, p).equal(right));
      at::set_num_threads(threads);
      const Tensor y = average_pool(broken, p);
      EXPECT_TRUE(y.narrow(1, 4, 4).isnan().all().item<bool>());
      EXPECT_TRUE(y.narrow(1, 0, 4).equal(right.narrow(1, 0, 4)));
      EXPECT_TRUE(y.narrow(1, 8, 4).equal(right.narrow(1, 8, 4)));
    }
}

TEST(AveragePool, StandsInForAtensWhereItDividesByTheWindow) {
  const at::NoGradGuard no_grad;
  struct Case {
    int64_t padding;
    bool ceil, padded, ours;
  };
  for (const Case& c :
       {Case{0, false, true, true}, Case{0, false, false, true}, Case{1, false, true, true},
        Case{1, false, false, false}, Case{0, true, true, false}}) {
    Network net;
    net.name = "average";
    net.tensors = {{"x", Role::input, {2, 3, 8, 9}}};
    net.forward = [c](const Tensors& t) {
      return Tensors{at::avg_pool2d(t[0], 3, 2, c.padding, c.ceil, c.padded)};
    };
    net.instantiate = [net](const Tensors& weights) { return bind(net, weights); };
    Ensemble ensemble = generate(net, 3, at::kFloat, at::kCPU, 1);
    auto model = compile(net, ensemble, {});
    EXPECT_EQ(model->plan_text().find("wide::average_pool") != std::string::npos, c.ours)
        << model->plan_text();
    const Program single = record_single(net, ensemble);
    EXPECT_LT(max_relative_error(as_function(*model, net)(ensemble), in_double(single, ensemble)),
              1e-5);
  }
}

TEST(MaxPool, SameForAnyNumberOfThreadsAndNothing) {
  const at::NoGradGuard guard;
  at::manual_seed(2);
  const PoolWindow p = windows()[1];
  const int threads = at::get_num_threads();
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const Tensor x = at::randn({5, 19, 33, 31}).contiguous(format);
    at::set_num_threads(1);
    const Tensor one = max_pool(x, p, false);
    at::set_num_threads(2);
    EXPECT_TRUE(max_pool(x, p, false).equal(one));
    at::set_num_threads(threads);
  }
  EXPECT_EQ(max_pool(at::randn({0, 3, 8, 8}), p, false).sizes(),
            (std::vector<int64_t>{0, 3, 4, 4}));
}

TEST(MaxPool, NanStaysInItsPlanes) {
  const at::NoGradGuard guard;
  at::manual_seed(3);
  const PoolWindow p = windows()[0];
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const Tensor x = at::randn({2, 12, 10, 10}).contiguous(format);
    Tensor broken = x.clone();
    broken.narrow(1, 4, 4).fill_(NAN);
    const Tensor right = max_pool(x, p, false), y = max_pool(broken, p, false);
    EXPECT_TRUE(y.narrow(1, 4, 4).isnan().all().item<bool>());
    EXPECT_TRUE(y.narrow(1, 0, 4).equal(right.narrow(1, 0, 4)));
    EXPECT_TRUE(y.narrow(1, 8, 4).equal(right.narrow(1, 8, 4)));
  }
}

/// The places of ATen's indices in their windows.
Tensor places_of(const Tensor& indices, const PoolWindow& p, int64_t width) {
  const auto along = [&](int axis, int64_t count) {
    return at::arange(count) * p.stride[axis] - p.padding[axis];
  };
  const Tensor rows = indices.div(width, "floor") - along(0, indices.size(2)).unsqueeze(1);
  return (rows * p.kernel[1] + indices.remainder(width) - along(1, indices.size(3))).to(at::kByte);
}

TEST(MaxPoolPlaces, AreThoseOfAtenAndSoIsTheGradient) {
  const at::NoGradGuard guard;
  at::manual_seed(4);
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  const std::vector<PoolWindow> all{
      {{2, 2}, {2, 2}, {0, 0}, {1, 1}}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, {{2, 3}, {3, 1}, {1, 0}, {1, 1}},
      {{1, 5}, {1, 4}, {0, 2}, {1, 1}}, {{3, 2}, {2, 3}, {1, 1}, {1, 1}},
      {{2, 2}, {5, 5}, {1, 1}, {1, 1}}, {{5, 5}, {2, 2}, {2, 2}, {1, 1}}};
  for (const std::vector<int64_t>& size : {std::vector<int64_t>{2, 3, 7, 9},
                                           {1, 5, 8, 40},
                                           {3, 2, 28, 28},
                                           {1, 1, 5, 71},
                                           {2, 37, 6, 5}})
    for (const PoolWindow& p : all)
      for (const bool ceil : {false, true}) {
        Tensor x = at::randint(-3, 4, size).to(at::kFloat);  // with equal ones
        x.masked_fill_(at::rand(size) < 0.1, kLeast);
        x.masked_fill_(at::rand(size) < 0.02, NAN);
        x[0][0].slice(0, 0, 4).fill_(kLeast);
        const auto [y, indices] = at::max_pool2d_with_indices(
            x, list(p.kernel), list(p.stride), list(p.padding), list(p.dilation), ceil);
        const int64_t channels = size[1];
        const Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
        const Tensor expected_last = aten(last, p, ceil);
        const Tensor g = at::randn(y.sizes());
        const Tensor dx = at::max_pool2d_with_indices_backward(
            g, x, list(p.kernel), list(p.stride), list(p.padding), list(p.dilation), ceil, indices);
        for_each_target([&](const std::string& target) {
          const auto [got, places] = max_pool_places(x, p, ceil);
          EXPECT_TRUE(same(got, y)) << target;
          EXPECT_TRUE(places.equal(places_of(indices, p, size[3]))) << target;
          EXPECT_TRUE(max_pool_backward(g, places, size, p, false).equal(dx)) << target;
          const auto [last_y, last_places] = max_pool_places(last, p, ceil);
          EXPECT_TRUE(same(last_y, expected_last)) << target;
          EXPECT_TRUE(last_places.equal(places)) << target;
          const Tensor last_dx = max_pool_backward(g, last_places, size, p, channels > 1);
          EXPECT_TRUE(last_dx.equal(dx)) << target;
          EXPECT_TRUE(last_dx.is_contiguous(at::MemoryFormat::ChannelsLast)) << target;
        });
      }
}

/// The products and sums of `pool` on planes of 7 x 11.
double counted(const std::function<Tensor(const Tensor&)>& pool) {
  const Program program = record({{"x", Role::input, at::randn({2, 3, 7, 11})}},
                                 [&](const Tensors& t) -> Tensors { return {pool(t[0])}; });
  return count_work(program, 1, {}).flops;
}

TEST(Pooling, IsCountedByWhatItsWindowsRead) {
  const at::NoGradGuard no_grad;
  const PoolWindow p{{3, 2}, {2, 1}, {0, 0}, {1, 1}};
  constexpr double planes = 2 * 3, results = planes * 3 * 10;
  EXPECT_EQ(counted([&](const Tensor& x) { return max_pool(x, p, false); }), results * 3 * 2);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("wide::max_pool_places", "");
  const auto with_places = [&](const Tensor& x) {
    std::vector<c10::IValue> stack{x, list(p.kernel), list(p.stride), list(p.padding), false};
    op.callBoxed(&stack);
    return stack[0].toTensor();
  };
  EXPECT_EQ(counted(with_places), results * 3 * 2);
  EXPECT_EQ(counted([&](const Tensor& x) { return average_pool(x, p); }), results * 3 * 2);
  EXPECT_EQ(counted([](const Tensor& x) {
              return adaptive_average_pool(x, {1, 1});
            }),
            planes * 7 * 11);
  // Of 7 rows in 3 windows two are in two of them, and so are three of 11 columns in 4.
  EXPECT_EQ(counted([](const Tensor& x) {
              return adaptive_average_pool(x, {3, 4});
            }),
            planes * (7 + 2) * (11 + 3));
}

}  // namespace
}  // namespace wide::pool_test
