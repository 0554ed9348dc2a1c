// Embedding bags against LibTorch's own for each of the models, on what bags seldom hold: nothing,
// padding alone, indices behind the last offset, rows of -inf and rows that are equal.
#include "tests/primitives/claims.h"

namespace wide::testing::embedding_bag_test {
namespace {

constexpr int64_t kRows = 7, kWidth = 2, kIndices = 9;
enum Mode : int64_t { sum, mean, max };  // LibTorch's numbers

struct Bags {
  int64_t mode = sum, padding = -1;
  bool closed = false, scaled = false;
  std::string text() const {
    return fmt::format("mode {} padding {} include_last_offset {} scaled {}", mode, padding, closed,
                       scaled);
  }
};

/// `t`: table, indices, offsets, scale of one model.
Tensor bags_of(const Bags& b, const Tensors& t) {
  return std::get<0>(at::_embedding_bag(t[0], t[1], t[2], false, b.mode, false,
                                        b.scaled ? std::optional(t[3]) : std::nullopt, b.closed,
                                        b.padding));
}

/// Whole numbers, so that rows are equal in places; one row is -inf where -inf has an order.
Tensor tables(int64_t n, const Bags& b, at::ScalarType dtype) {
  Tensor t = at::randint(-2, 3, {n, kRows, kWidth}).add(at::arange(n).mul(3).view({n, 1, 1}));
  t = t.to(dtype);
  if (b.mode == max) t.select(1, 4).fill_(-INFINITY);
  return t;
}

Tensors models(int64_t n, const Bags& b, const Tensor& offsets, at::ScalarType dtype) {
  Tensor ids = at::randint(0, kRows, {n, kIndices});
  ids.select(0, 0).slice(0, 0, 4).fill_(2);              // padding alone
  ids.select(0, n - 1).slice(0, kIndices - 1).fill_(4);  // a bag that has the row of -inf alone
  Tensors t{tables(n, b, dtype), ids, offsets.slice(0, 0, n).contiguous()};
  if (b.scaled) t.push_back(at::randint(1, 4, {n, kIndices}).to(dtype));
  return t;
}

/// The bags of all models, and the gradients by what may have one: in LibTorch, or wide.
Tensors results(const Bags& b, Tensors t, bool wide, bool gradients) {
  const int64_t n = t[0].size(0);
  const at::AutoGradMode grad(gradients);
  if (gradients)
    for (const size_t k : {size_t{0}, size_t{3}})
      if (k < t.size()) t[k] = t[k].detach().clone().requires_grad_();
  Ensemble ensemble{n, t, std::vector<bool>(t.size(), false)};
  Tensor y;
  if (wide) {
    Network network;
    for (size_t k = 0; k < t.size(); ++k)
      network.tensors.push_back({fmt::format("t{}", k), Role::input, {}});
    network.forward = [b](const Tensors& in) -> Tensors { return {bags_of(b, in)}; };
    Coverage coverage;
    Tensors model;
    for (const Tensor& part : t) model.push_back(part[0].detach());
    y = wide_models(record_one(network, model), ensemble, {{"embedding_bag", "wide"}},
                    &coverage)[0];
    EXPECT_EQ(coverage.counts()[Way::per_model], 0);
  } else {
    Tensors all;
    for (int64_t i = 0; i < n; ++i) {
      Tensors model;
      for (const Tensor& part : t) model.push_back(part[i].contiguous());
      all.push_back(bags_of(b, model));
    }
    y = at::stack(all);
  }
  Tensors got{y.detach()};
  if (!gradients) return got;
  // Bags without a row have no infinite value; those that have one give it no gradient of NaN.
  (y * at::arange(1, y.numel() + 1, y.options().requires_grad(false)).view(y.sizes()))
      .sum()
      .backward();
  for (const Tensor& part : t)
    if (part.is_floating_point()) got.push_back(part.grad());
  return got;
}

void expect_same(const Bags& b, const Tensor& offsets, at::ScalarType dtype, bool gradients) {
  for (const int64_t n : {int64_t{1}, int64_t{3}}) {
    SCOPED_TRACE(fmt::format("N {} {} {}", n, b.text(), c10::toString(dtype)));
    const Tensors t = models(n, b, offsets, dtype);
    const Tensors got = results(b, t, true, gradients), expected = results(b, t, false, gradients);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t k = 0; k < got.size(); ++k)
      EXPECT_TRUE(at::allclose(got[k], expected[k], 1e-6, 1e-7)) << k << "\n"
                                                                 << got[k] << "\n"
                                                                 << expected[k];
  }
}

void for_all(bool closed, const std::function<void(const Bags&, at::ScalarType)>& run) {
  for (const int64_t mode : {sum, mean, max})
    for (const int64_t padding : {-1, 2})
      for (const bool scaled : {false, true})
        for (const at::ScalarType dtype : {at::kFloat, at::kDouble})
          if (mode == sum || !scaled) run({mode, padding, closed, scaled}, dtype);
}

const Tensor kOffsets =
    at::tensor({0, 4, 4, 8, 0, 0, 8, 8, 0, 2, 3, 8}, at::kLong).view({3, 4});  // empty ones too

TEST(EmbeddingBag, EqualsLibTorchWithGradients) {
  for_all(false, [](const Bags& b, at::ScalarType dtype) {
    expect_same(b, kOffsets, dtype, true);
    expect_same(b, kOffsets, dtype, false);
  });
  const Tensor closed = at::cat({kOffsets, at::full({3, 1}, kIndices, at::kLong)}, 1);
  for_all(true, [&](const Bags& b, at::ScalarType dtype) {
    expect_same(b, closed, dtype, true);
    expect_same(b, closed, dtype, false);
  });
}

/// LibTorch leaves indices behind the last offset out in its fast kernels alone: those of the CPU
/// for sums and means in single or half precision without padding. There its gradients are
/// uninitialised memory, so they are compared in double precision only.
TEST(EmbeddingBag, IndicesBehindTheLastOffsetAreWhereLibTorchHasThem) {
  for (const Tensor& offsets :
       {kOffsets, at::tensor({0, 4, 4, 0, 0, 8, 0, 2, 7}, at::kLong).view({3, 3})})
    for_all(true, [&](const Bags& b, at::ScalarType dtype) {
      expect_same(b, offsets, dtype, false);
      if (dtype == at::kDouble) expect_same(b, offsets, dtype, true);
      if (dtype == at::kFloat && b.mode != max) expect_same(b, offsets, at::kHalf, false);
    });
}

TEST(EmbeddingBag, OfRowsOfMinusInfinityIsMinusInfinity) {
  const Tensor table = at::full({2, 3, 1}, -INFINITY),
               ids = at::tensor({0, 1, 2, 1, 0, 2}).view({2, 3}),
               offsets = at::tensor({0, 1, 1, 0, 2, 3}).view({2, 3});
  const Tensor got = results({max, 2, false, false}, {table, ids, offsets}, true, false)[0];
  const double inf = INFINITY;
  EXPECT_TRUE(
      at::equal(got, at::tensor({-inf, 0.0, -inf, -inf, 0.0, 0.0}, at::kFloat).view({2, 3, 1})))
      << got;
}

TEST(EmbeddingBag, WithoutIndicesIsZero) {
  for (const int64_t mode : {sum, mean, max})
    for (const bool gradients : {false, true}) {
      const Tensors t{at::ones({2, 3, 1}), at::empty({2, 0}, at::kLong),
                      at::zeros({2, 2}, at::kLong)};
      const Tensors got = results({mode, -1, false, false}, t, true, gradients);
      EXPECT_TRUE(at::equal(got[0], at::zeros({2, 2, 1}))) << mode;
      if (gradients) {
        EXPECT_TRUE(at::equal(got[1], at::zeros({2, 3, 1}))) << mode;
      }
    }
}

}  // namespace
}  // namespace wide::testing::embedding_bag_test
