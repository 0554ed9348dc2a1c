// Products of matrices as they lie, and the pass that calls them, against float64.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/check/check.h"
#include "engine/error.h"
#include "engine/passes/pass.h"
#include "engine/record/record.h"
#include "primitives/kernels/gemm/matmul_tile.h"
#include "tests/primitives/kernels/called_operators.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::matmul_test {
namespace {

struct Case {
  int64_t n, m, k, o;
};

std::ostream& operator<<(std::ostream& to, const Case& c) {
  return to << c.n << " pairs " << c.m << "x" << c.k << "x" << c.o;
}

/// Every number of rows and vectors of a block, parts of vectors, sums in several blocks of k, and
/// rows far apart.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {{1, 1, 1, 1},     {3, 5, 7, 11},   {2, 97, 13, 64},
                                        {5, 30, 64, 3},   {7, 8, 257, 17}, {2, 13, 519, 53},
                                        {1, 1, 601, 130}, {2, 7, 3, 193},  {1, 67, 0, 5},
                                        {2, 0, 3, 4},     {2, 18, 9, 544}, {3, 16, 32, 48}};
  return all;
}

Tensor in_double(const Tensor& t) { return t.to(at::kDouble); }

double error(const Tensor& y, const Tensor& expected) {
  return y.numel() == 0 ? 0.0 : max_relative_error({y}, {expected});
}

TEST(Matmul, EqualsDoubleHoweverOperandsLieUnderEveryInstructionSet) {
  const at::NoGradGuard guard;
  for_each_target([](const std::string& target) {
    at::manual_seed(1);
    for (const Case& c : cases())
      for (const bool turn_a : {false, true})
        for (const bool turn_b : {false, true}) {
          const Tensor a = turn_a ? at::randn({c.n, c.k, c.m}) : at::randn({c.n, c.m, c.k});
          const Tensor b = at::randn(turn_b ? Sizes{c.n, c.o, c.k} : Sizes{c.n, c.k, c.o}) /
                           std::sqrt(double(c.k + 1));
          const Tensor bias = at::randn({c.n, 1, c.o});
          const auto turned = [](const Tensor& t, bool turn) {
            return in_double(turn ? t.transpose(1, 2) : t);
          };
          const Tensor product = at::bmm(turned(a, turn_a), turned(b, turn_b));
          EXPECT_EQ(matmul(a, b, turn_a, turn_b, {}).sizes(), product.sizes());
          EXPECT_LT(error(matmul(a, b, turn_a, turn_b, {}), product), 1e-5) << target << " " << c;
          const Tensor sum = product + in_double(bias);
          EXPECT_LT(error(matmul(a, b, turn_a, turn_b, bias, "relu"), at::relu(sum)), 1e-5)
              << target << " " << c;
          EXPECT_LT(error(matmul(a, b, turn_a, turn_b, bias, "tanh"), at::tanh(sum)), 1e-5)
              << target << " " << c;
          // Gaps between rows, between all elements, and one operand for all.
          const Tensor gaps = at::constant_pad_nd(b, {2, 1}).narrow(2, 2, b.size(2));
          EXPECT_LT(error(matmul(a, gaps, turn_a, turn_b, {}), product), 1e-5) << target << c;
          const Tensor spread = at::repeat_interleave(a, 2, 2).slice(2, 0, {}, 2);
          EXPECT_LT(error(matmul(spread, b, turn_a, turn_b, {}), product), 1e-5) << target << c;
          const Tensor far = at::repeat_interleave(b, 2, 2).slice(2, 0, {}, 2);
          EXPECT_LT(error(matmul(a, far, turn_a, turn_b, {}), product), 1e-5) << target << c;
          const Tensor same = b.narrow(0, 0, 1).expand(b.sizes());
          EXPECT_LT(error(matmul(a, same, turn_a, turn_b, {}),
                          at::bmm(turned(a, turn_a), turned(same, turn_b))),
                    1e-5)
              << target << " " << c;
        }
  });
}

TEST(Matmul, SumsInOneOrderWhateverTheThreadsAndTheNeighbours) {
  const at::NoGradGuard guard;
  const int threads = at::get_num_threads();
  for_each_target([&](const std::string& target) {
    for (const Case& c : {Case{3, 29, 331, 131}, Case{1, 1, 700, 300}, Case{2, 70, 40, 257}})
      for (const bool turn_b : {false, true}) {
        const Tensor a = at::randn({c.n, c.m, c.k}), bias = at::randn({c.n, 1, c.o});
        const Tensor b = turn_b ? at::randn({c.n, c.o, c.k}) : at::randn({c.n, c.k, c.o});
        at::set_num_threads(1);
        const Tensor one = matmul(a, b, false, turn_b, bias, "gelu");
        at::set_num_threads(2);
        const Tensor two = matmul(a, b, false, turn_b, bias, "gelu");
        at::set_num_threads(threads);
        EXPECT_TRUE(one.equal(two)) << target << " " << c;
        const Tensor plain = matmul(a, b, false, turn_b, bias);
        const Tensor last = matmul(a.narrow(0, c.n - 1, 1), b.narrow(0, c.n - 1, 1), false, turn_b,
                                   bias.narrow(0, c.n - 1, 1));
        EXPECT_TRUE(last.equal(plain.narrow(0, c.n - 1, 1))) << target << " " << c;
        const Tensor row = matmul(a.narrow(1, c.m - 1, 1), b, false, turn_b, bias);
        EXPECT_TRUE(row.equal(plain.narrow(1, c.m - 1, 1))) << target << " " << c;
        const Tensor by_columns = a.transpose(1, 2).contiguous();
        EXPECT_TRUE(matmul(by_columns, b, true, turn_b, bias).equal(plain)) << target << " " << c;
      }
  });
}

TEST(Matmul, KeepsModelsAndRowsApart) {
  const at::NoGradGuard guard;
  for_each_target([](const std::string& target) {
    Tensor a = at::randn({3, 11, 19}), b = at::randn({3, 37, 19});
    const Tensor clean = matmul(a, b, false, true, {});
    b[1].fill_(NAN);
    a[0][4].fill_(NAN);
    const Tensor y = matmul(a, b, false, true, {}, "relu"), plain = matmul(a, b, false, true, {});
    EXPECT_TRUE(y[1].isnan().all().item<bool>()) << target;
    for (int64_t i : {0, 2})
      for (int64_t r = 0; r < 11; ++r) {
        const bool lost = i == 0 && r == 4;
        EXPECT_EQ(y[i][r].isnan().all().item<bool>(), lost) << target << " " << i << " " << r;
        EXPECT_EQ(plain[i][r].equal(clean[i][r]), !lost) << target << " " << i << " " << r;
      }
  });
}

TEST(Matmul, WritesAndReadsNothingBesideItsOwn) {
  for_each_target([](const std::string& target) {
    for (const int64_t o : {1, 5, 16, 17, 63, 100})
      for (const bool turned : {false, true}) {
        const int64_t rows = 3, inner = 300, stride = o + 2;
        // What lies behind the operands' ends is not finite.
        std::vector<float> a(static_cast<size_t>(rows * inner) + 64, NAN),
            b(static_cast<size_t>(inner * o) + 64, NAN);
        std::fill_n(a.begin(), rows * inner, 1.0F);
        std::fill_n(b.begin(), inner * o, 0.5F);
        std::vector<float> out(static_cast<size_t>(rows * stride), -7.0F);
        matmul_tile::Product p;
        p.rows = rows;
        p.inner = inner;
        p.columns = o;
        p.a = {a.data(), inner, 1};
        p.b =
            turned ? matmul_tile::Matrix{b.data(), 1, inner} : matmul_tile::Matrix{b.data(), o, 1};
        p.out = out.data();
        p.out_stride = stride;
        matmul_tile::multiply(p, 0, matmul_tile::panel_count(o));
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t j = 0; j < stride; ++j)
            ASSERT_EQ(out[static_cast<size_t>(r * stride + j)], j < o ? 150.0F : -7.0F)
                << target << " " << o << " at " << r << ", " << j;
      }
  });
}

TEST(Matmul, RefusesWhatDoesNotFit) {
  const Tensor x = at::randn({1, 2, 3}), w = at::randn({1, 3, 4});
  EXPECT_ANY_THROW(matmul(x, w, true, false, {}));
  EXPECT_ANY_THROW(matmul(x, w, false, false, at::randn({1, 4})));
  EXPECT_ANY_THROW(matmul(x, w, false, false, {}, "sine"));
  const Tensor learns = at::randn({1, 2, 3}).requires_grad_();
  EXPECT_ANY_THROW(matmul(learns, w, false, false, {}).sum().backward());
}

/// The program of `function` after the pass computes the same, and holds `left` of the operators
/// that the pass takes away.
void expect_products(const Tensors& given, int64_t products, int64_t left,
                     const std::function<Tensors(const Tensors&)>& function) {
  const at::NoGradGuard guard;
  std::vector<Binding> bindings;
  for (const Tensor& t : given) bindings.push_back({"", Role::input, t, true});
  Program program = record(bindings, function, given[0].size(0));
  run_passes(program, {{}, /*verify=*/true, false});
  int64_t found = 0, others = 0;
  for (const Node& node : program.nodes) {
    found += node.name() == "wide::matmul";
    for (const char* name : {"aten::bmm", "aten::baddbmm", "aten::clone", "aten::transpose.int",
                             "aten::add.Tensor", "wide::chain"})
      others += node.name() == name;
  }
  EXPECT_EQ(found, products) << program.text();
  EXPECT_EQ(others, left) << program.text();
  Tensors doubles;
  for (const Tensor& t : given) doubles.push_back(in_double(t));
  const Tensors expected = function(doubles), got = interpret(program, given);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(got[i].sizes(), expected[i].sizes());
    EXPECT_LT(error(got[i], expected[i]), 1e-5) << i << program.text();
    EXPECT_EQ(got[i].strides().vec(), program.value(program.outputs[i]).strides) << i;
  }
}

TEST(Products, TakeOperandsAndResultsAsTheyLie) {
  const Tensor x = at::randn({3, 5, 7}), w = at::randn({3, 4, 7}), bias = at::randn({3, 1, 4});
  const auto weights = [](const Tensor& t) { return t.transpose(1, 2).contiguous(); };
  expect_products({x, w, bias}, 1, 0,
                  [&](const Tensors& t) { return Tensors{at::bmm(t[0], weights(t[1])) + t[2]}; });
  expect_products({x, w, bias}, 1, 0, [&](const Tensors& t) {
    return Tensors{at::baddbmm(t[2], t[0], weights(t[1]))};
  });
  // What a gradient of the weights is.
  expect_products({x, at::randn({3, 5, 4})}, 1, 0, [](const Tensors& t) {
    return Tensors{at::bmm(t[0].transpose(1, 2), t[1]).transpose(1, 2)};
  });
  // Its own result is read as well: the sum stays apart, and so does what is transposed.
  expect_products({x, w, bias}, 1, 1, [&](const Tensors& t) {
    const Tensor y = at::bmm(t[0], weights(t[1]));
    return Tensors{y, y + t[2]};
  });
  expect_products({x, w}, 1, 1, [&](const Tensors& t) {
    const Tensor y = at::bmm(t[0], weights(t[1]));
    return Tensors{y, y.transpose(1, 2)};
  });
  // A transposed result seen through one more view.
  expect_products({x, w}, 1, 1, [&](const Tensors& t) {
    return Tensors{at::bmm(t[0], weights(t[1])).transpose(1, 2).unsqueeze(1)};
  });
  // Not a bias: a row for each model's own rows, and one with a factor.
  expect_products({x, w, at::randn({3, 5, 1})}, 1, 1,
                  [&](const Tensors& t) { return Tensors{at::bmm(t[0], weights(t[1])) + t[2]}; });
  expect_products({x, w, bias}, 1, 1, [&](const Tensors& t) {
    return Tensors{at::add(at::bmm(t[0], weights(t[1])), t[2], 2)};
  });
  // One product's result is the other's operand.
  expect_products({x, w, at::randn({3, 4, 6})}, 2, 0, [&](const Tensors& t) {
    const Tensor y = at::bmm(t[0], weights(t[1])).transpose(1, 2);
    return Tensors{at::bmm(t[2].transpose(1, 2), y)};
  });
}

TEST(Products, KeepWhatIsLaidOutOnce) {
  const at::NoGradGuard guard;
  const Tensor x = at::randn({3, 5, 7}), w = at::randn({3, 4, 7});
  Program program = record(
      {{"", Role::input, x, true}, {"w", Role::parameter, w, true}},
      [](const Tensors& t) { return Tensors{at::bmm(t[0], t[1].transpose(1, 2).contiguous())}; },
      3);
  run_passes(program);
  int64_t copies = 0;
  for (const Node& node : program.nodes) {
    copies += node.name() == "aten::clone" && node.phase == Phase::prologue;
    if (node.name() == "wide::matmul") {
      EXPECT_FALSE(node.arguments[3].constant.toBool());
    }
  }
  EXPECT_EQ(copies, 1) << program.text();
}

}  // namespace
}  // namespace wide::matmul_test
