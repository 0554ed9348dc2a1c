// Reductions of rows beside ATen's in float64, under every instruction set, and in wide programs.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/measure/roofline.h"
#include "tests/primitives/kernels/called_operators.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::row_reduce_test {
namespace {

const std::vector<std::string> kKinds{"sum", "mean", "amax", "logsumexp", "argmax"};

/// Of the last dimension, in float64.
Tensor exact(const Tensor& x, const std::string& kind) {
  const Tensor wide = x.to(at::kDouble);
  if (kind == "sum") return wide.sum(-1);
  if (kind == "mean") return wide.mean(-1);
  if (kind == "amax") return wide.amax(-1);
  if (kind == "logsumexp") return wide.logsumexp(-1);
  return wide.argmax(-1);
}

void expect_right(const Tensor& x, const std::string& what) {
  for (const std::string& kind : kKinds) {
    const Tensor expected = exact(x, kind);
    for_each_target([&](const std::string& target) {
      const Tensor y = reduce_rows(x, kind, 1, false);
      EXPECT_EQ(y.scalar_type(), kind == "argmax" ? at::kLong : at::kFloat);
      const double allowed = kind == "sum" ? 1e-6 * static_cast<double>(x.size(-1)) : 1e-6;
      EXPECT_TRUE(at::allclose(y.to(at::kDouble), expected.to(at::kDouble), 2e-6, allowed,
                               /*equal_nan=*/true))
          << kind << " of " << what << " under " << target;
    });
  }
}

TEST(RowReduce, IsRightForEveryWidth) {
  const at::NoGradGuard guard;
  at::manual_seed(1);
  for (const int64_t width : {1, 2, 5, 15, 16, 17, 31, 63, 64, 65, 100, 1031})
    for (const int64_t rows : {1, 3, 17, 37}) expect_right(at::randn({rows, width}), "randn");
  // The first of equal ones.
  expect_right(at::randint(3, {19, 37}).to(at::kFloat), "equal ones");
}

TEST(RowReduce, KeepsNanAndInfinitiesAsAtenDoes) {
  const at::NoGradGuard guard;
  at::manual_seed(2);
  for (const int64_t width : {3, 16, 37, 130}) {
    Tensor x = at::randn({7, width});
    x.select(0, 1).fill_(-INFINITY);
    x.select(0, 2).select(0, 1).fill_(NAN);
    x.select(0, 3).select(0, width - 1).fill_(NAN);
    x.select(0, 4).select(0, 2).fill_(-INFINITY);
    x.select(0, 5).select(0, 0).fill_(INFINITY);
    expect_right(x, "odd ones");
  }
}

TEST(RowReduce, SameBitsForAnyNumberOfThreadsAndForNothing) {
  const at::NoGradGuard guard;
  at::manual_seed(3);
  const Tensor x = at::randn({5, 1001, 7, 11});
  const int threads = at::get_num_threads();
  for (const std::string& kind : kKinds) {
    at::set_num_threads(1);
    const Tensor one = reduce_rows(x, kind, 2, true);
    at::set_num_threads(2);
    EXPECT_TRUE(reduce_rows(x, kind, 2, true).equal(one));
    at::set_num_threads(threads);
    EXPECT_EQ(one.sizes(), (std::vector<int64_t>{5, 1001, 1, 1}));
    EXPECT_EQ(reduce_rows(at::randn({0, 5}), kind, 1, false).sizes(), (std::vector<int64_t>{0}));
    EXPECT_THROW(reduce_rows(at::randn({5, 0}), kind, 1, false), c10::Error);
    EXPECT_THROW(reduce_rows(at::randn({5, 4}).t(), kind, 1, false), c10::Error);
    EXPECT_ANY_THROW(reduce_rows(at::randn({5, 4}).requires_grad_(), "sum", 1, false).backward());
  }
  EXPECT_THROW(reduce_rows(x, "median", 1, false), c10::Error);
  EXPECT_THROW(reduce_rows(x, "sum", 5, false), c10::Error);
}

struct Case {
  const char* name;
  int64_t kernels;  // steps that are ours
  std::function<Tensor(const Tensor&)> forward;
};

TEST(RowReduce, StandsInForAtensInWidePrograms) {
  const at::NoGradGuard no_grad;
  const std::vector<Case> cases{
      {"mean", 1,
       [](auto& x) {
         return x.mean({2, 3});
       }},
      {"kept", 1,
       [](auto& x) {
         return x.sum({-1, -2, -3}, true);
       }},
      {"amax", 1, [](auto& x) { return at::amax(x, {3}); }},
      {"max", 1, [](auto& x) { return std::get<0>(x.max(-1)); }},
      {"both", 0, [](auto& x) { return std::get<0>(x.max(-1)) + std::get<1>(x.max(-1)); }},
      {"argmax", 1, [](auto& x) { return x.argmax(3).to(at::kFloat); }},
      {"logsumexp", 1,
       [](auto& x) {
         return at::logsumexp(x, {2, 3});
       }},
      {"not the last", 0, [](auto& x) { return x.sum({1}); }},
      {"not in order", 0, [](auto& x) { return x.transpose(1, 3).sum({3}); }},
      {"another type", 0, [](auto& x) { return x.sum({3}, false, at::kDouble); }}};
  for (const Case& c : cases) {
    Network net;
    net.name = c.name;
    net.tensors = {{"x", Role::input, {3, 5, 7, 9}}};
    net.forward = [&c](const Tensors& t) { return Tensors{c.forward(t[0])}; };
    net.instantiate = [net](const Tensors& weights) { return bind(net, weights); };
    Ensemble ensemble = generate(net, 3, at::kFloat, at::kCPU, 1);
    auto model = compile(net, ensemble, {});
    const std::string plan = model->plan_text();
    EXPECT_EQ(plan.find("wide::reduce_rows") != std::string::npos, c.kernels > 0) << c.name << "\n"
                                                                                  << plan;
    const Program single = record_single(net, ensemble);
    EXPECT_LT(max_relative_error(as_function(*model, net)(ensemble), in_double(single, ensemble)),
              1e-5)
        << c.name;
    const Tensor clean = model->run({ensemble.tensors[0]})[0].clone();
    Tensor broken = ensemble.tensors[0].clone();
    broken[1].fill_(NAN);
    const Tensor y = model->run({broken})[0];
    EXPECT_TRUE(y[0].equal(clean[0]) && y[2].equal(clean[2])) << c.name;
  }
}

TEST(RowReduce, IsCountedByWhatItReads) {
  const at::NoGradGuard no_grad;
  for (const std::string& kind : kKinds) {
    const Program program =
        record({{"x", Role::input, at::randn({3, 5, 7})}},
               [&](const Tensors& t) -> Tensors { return {reduce_rows(t[0], kind, 2, false)}; });
    EXPECT_EQ(count_work(program, 1, {}).flops, 3 * 5 * 7) << kind;
  }
}

}  // namespace
}  // namespace wide::row_reduce_test
