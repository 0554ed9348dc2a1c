#include "engine/record/captured.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/compile.h"
#include "engine/error.h"
#include "engine/record/record.h"

namespace wide::captured_test {
namespace {

using Function = std::function<Tensors(const Tensors&)>;

/// Two models of a function of one input that captures what it will, against the function itself.
void expect_right(const Function& function, const Tensor& x) {
  const at::NoGradGuard no_grad;
  Network net;
  net.name = "captures";
  net.tensors = {{"x", Role::input, x.sizes().slice(1).vec(), x.scalar_type()}};
  net.forward = function;
  const Ensemble ensemble{x.size(0), {x}, {false}};
  CompileOptions options;
  options.tune = false;
  const auto model = compile(net, ensemble, options);
  model->run({at::zeros_like(x)});  // what a call leaves behind does not matter to the next one
  const Tensors got = model->run({x});
  for (int64_t i = 0; i < x.size(0); ++i) {
    const Tensors expected = function({x[i]});
    for (size_t k = 0; k < expected.size(); ++k)
      EXPECT_TRUE(at::allclose(got[k][i], expected[k], 1e-5, 1e-6))
          << i << " " << k << ": " << got[k][i] - expected[k];
  }
}

TEST(Captured, GoesThroughInPlaceCode) {
  const Tensor x = at::rand({2, 3, 7}), other = at::rand({3, 7}), table = at::rand({7});
  // Composites that work in place on what they made of captured tensors alone.
  expect_right([&](const Tensors& t) { return Tensors{at::cosine_similarity(t[0], other, 1)}; }, x);
  expect_right(
      [&](const Tensors& t) {
        return Tensors{at::binary_cross_entropy_with_logits(t[0], other, table)};
      },
      x);
  // The model's own, also through views.
  expect_right(
      [&](const Tensors& t) {
        Tensor mask = table.gt(0.5), kept = table * 2;
        kept.slice(0, 1, 4).mul_(3);
        mask.logical_not_();
        kept.masked_fill_(mask, 0);
        return Tensors{t[0] * kept, kept};
      },
      x);
}

TEST(Captured, MayTakeGradients) {
  const Tensor x = at::rand({2, 4});
  const Tensor scale = at::rand({4}).requires_grad_();
  expect_right(
      [&](const Tensors& t) {
        const at::AutoGradMode grad(true);
        const Tensor y = (t[0] * scale).square().sum();
        return Tensors{torch::autograd::grad({y}, {scale})[0].detach()};
      },
      x);
}

TEST(Captured, RefusesChangesByShape) {
  const at::NoGradGuard no_grad;
  const Tensor count = at::zeros({5}), before = count.clone();
  const auto refused = [&](const std::function<void()>& write) {
    try {
      record({{"x", Role::input, at::ones({5})}}, [&](const Tensors& t) {
        write();
        return Tensors{t[0] + count};
      });
      FAIL() << "not refused";
    } catch (const Error& e) {
      EXPECT_STREQ(
          e.what(),
          "[forward] captured tensor f32[5]: got a change in place, expected it left as it "
          "is; try to register it as a buffer");
    }
    EXPECT_TRUE(count.equal(before));
  };
  refused([&] { count.add_(1); });
  refused([&] { count.select(0, 2).fill_(3); });
}

TEST(Captured, WhatIsReadFromItsMemoryIsAConstant) {
  const Tensor x = at::rand({2, 9}), cuts = at::tensor({2, 3, 7}, at::kLong),
               sections = at::tensor(4, at::kLong);
  expect_right([&](const Tensors& t) { return t[0].tensor_split(cuts, 0); }, x);
  expect_right([&](const Tensors& t) { return t[0].tensor_split(sections, 0); }, x);
}

TEST(Record, RefusesSparseResults) {
  const at::NoGradGuard no_grad;
  try {
    record({{"x", Role::input, at::ones({2, 3})}},
           [](const Tensors& t) { return Tensors{t[0].to_sparse()}; });
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "[aten::_to_sparse] result: got the layout Sparse, expected strided; try "
                 "sparse=False of an embedding, or to_dense()");
  }
}

TEST(CompiledModel, ResultsThatAreConjugatesOrNegativesYetToBeTaken) {
  const Tensor x = at::rand({2, 4, 3});
  expect_right([](const Tensors& t) { return Tensors{at::complex(t[0], t[0] + 1).conj()}; }, x);
  expect_right([](const Tensors& t) { return Tensors{at::_neg_view(t[0] + 1)}; }, x);
  expect_right(
      [](const Tensors& t) {
        const Tensor z = at::complex(t[0], t[0] + 1);
        return Tensors{at::cat({z, z.conj()}), at::stack({at::_neg_view(t[0] * 2), t[0]})};
      },
      x);
  expect_right([](const Tensors& t) { return Tensors{at::fft_ifft(t[0]).transpose(0, 1)}; }, x);
}

TEST(CompiledModel, InputsThatAreConjugatesOrNegativesYetToBeTaken) {
  const Tensor z = at::complex(at::rand({2, 5}), at::rand({2, 5}));
  const auto doubled = [](const Tensors& t) { return Tensors{t[0] * 2}; };
  expect_right(doubled, z.conj());
  expect_right(doubled, at::imag(z.conj()));
}

TEST(Record, RefusesToNest) {
  const auto identity = [](const Tensors& t) { return t; };
  const Binding x{"x", Role::input, at::ones({2})};
  EXPECT_THROW(record({x}, [&](const Tensors& t) { return record({x}, identity), t; }), Error);
}

TEST(CompiledModel, NothingGoesInAtAll) {
  const at::NoGradGuard no_grad;
  Network net;
  net.name = "nothing";
  net.forward = [](const Tensors&) { return Tensors{at::arange(5)}; };
  const Tensors got = compile(net, Ensemble{3, {}, {}}, {})->run({});
  EXPECT_TRUE(got[0].equal(at::arange(5).expand({3, 5})));
}

}  // namespace
}  // namespace wide::captured_test
