// The norm kernels equal their slow twins of ATen operators in float64, in every layout; they write
// over what they read, past the caches, and with an activation; nothing crosses from model to
// model.
#include "primitives/kernels/norm/norms.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/program.h"
#include "primitives/kernels/pointwise/activations.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::testing::norms_test {
namespace {

Tensor random(Sizes sizes) { return at::randn(sizes) * 3 + 7; }  // a mean away from zero

double error(const Tensor& got, const Tensor& expected) {
  const Tensor e = expected.to(at::kDouble);
  return ((got.to(at::kDouble) - e).abs().max() / e.abs().max()).item<double>();
}

Tensor per_channel(const Tensor& t, int64_t rank) {
  Sizes sizes(static_cast<size_t>(rank), 1);
  sizes[0] = t.size(0);
  sizes[2] = t.size(1);
  return t.view(sizes);
}

/// Images in the layouts that operators leave behind.
Tensors layouts(const Tensor& x) {
  Tensors out{x, x.transpose(0, 1).contiguous().transpose(0, 1),  // [B, N, ...], packed
              x.movedim(2, -1).contiguous().movedim(-1, 2),       // channels last
              x.movedim({0, 2}, {-2, -1}).contiguous().movedim({-2, -1}, {0, 2}),
              x.transpose(1, -1).contiguous().transpose(1, -1)};  // neither
  return out;
}

const std::vector<Sizes> kImages{{3, 2, 5},        {2, 3, 18, 7},      {3, 2, 4, 5, 7},
                                 {1, 1, 33, 2, 1}, {2, 2, 6, 2, 3, 4}, {3, 2, 2, 8, 16}};

TEST(NormKernels, LayerNormOfOddRows) {
  at::manual_seed(1);
  for (const int64_t d : {1, 2, 7, 16, 31, 33, 64, 257})
    for (const int64_t rows : {1, 3, 5}) {
      const Tensor x = random({3, 2, rows, d});
      for (const int64_t parts : {3, 6}) {
        const Tensor w = at::randn({parts, d}), b = at::randn({parts, d});
        const auto rowwise = [&](const Tensor& t) {
          return t.to(at::kDouble).view({3, parts / 3, 1, d});
        };
        const Tensor e = x.to(at::kDouble);
        const Tensor plain = at::layer_norm(e, {d}, {}, {}, 1e-5);
        EXPECT_LT(
            error(norms::layer_norm(x, w, b, d, 1e-5, false), plain * rowwise(w) + rowwise(b)),
            2e-5);
        EXPECT_LT(error(norms::layer_norm(x, w, {}, d, 1e-5, true),
                        e * at::rsqrt((e * e).mean({-1}, true) + 1e-5) * rowwise(w)),
                  2e-5);
      }
    }
}

TEST(NormKernels, GroupNormInEveryLayout) {
  at::manual_seed(2);
  for (const Sizes& sizes : kImages)
    for (const Tensor& x : layouts(random(sizes))) {
      const int64_t c = sizes[2], rank = x.dim();
      for (const int64_t groups : {int64_t{1}, c % 2 == 0 ? 2 : c}) {
        const Tensor w = at::randn({sizes[0], c}), b = at::randn({sizes[0], c});
        const Tensor e =
            at::group_norm(x.to(at::kDouble).flatten(0, 1), groups, {}, {}, 1e-5).view(x.sizes());
        const Tensor expected = e * per_channel(w, rank) + per_channel(b, rank);
        const Tensor got = norms::group_norm(norms::for_group_norm(x), w, b, groups, 1e-5);
        if (x.numel() / (sizes[0] * sizes[1]) / groups > 1) {
          EXPECT_LT(error(got, expected), 3e-6);
        }
      }
    }
}

TEST(NormKernels, BatchNormInEveryLayout) {
  at::manual_seed(3);
  for (const Sizes& sizes : kImages)
    for (const Tensor& x : layouts(random(sizes))) {
      const int64_t n = sizes[0], c = sizes[2];
      if (x.numel() / (n * c) < 2) continue;
      const Tensor w = at::randn({n, c}), b = at::randn({n, c}), mean = at::randn({n, c}),
                   var = at::rand({n, c}) + 0.5;
      const Tensors got = norms::batch_norm(norms::for_batch_norm(x), w, b, mean, var, 0.3, 1e-5);
      for (int64_t i = 0; i < n; ++i) {
        Tensor m = mean[i].to(at::kDouble), v = var[i].to(at::kDouble);
        const auto [y, save_mean, save_invstd] =
            at::native_batch_norm(x[i].to(at::kDouble), w[i].to(at::kDouble), b[i].to(at::kDouble),
                                  m, v, true, 0.3, 1e-5);
        EXPECT_LT(error(got[0][i], y), 5e-6);
        EXPECT_LT(error(got[1][i], save_mean), 1e-6);
        EXPECT_LT(error(got[2][i], save_invstd), 5e-6);
        EXPECT_LT(error(got[3][i], m), 1e-6);
        EXPECT_LT(error(got[4][i], v), 5e-6);
      }
      const Tensor expected = x.to(at::kDouble) * per_channel(w, x.dim()) + per_channel(b, x.dim());
      EXPECT_LT(error(norms::scale_shift(norms::for_batch_norm(x), w, b), expected), 1e-6);
    }
}

TEST(NormKernels, RightUnderEveryInstructionSet) {
  at::manual_seed(6);
  for (const int64_t c : {1, 5, 16, 37})
    for (const int64_t area : {1, 9, 64, 131}) {
      const Tensor x = random({2, 3, c, area}), w = at::randn({2, c}), b = at::randn({2, c});
      const Tensor e = x.to(at::kDouble);
      const auto each = [&](const Tensor& t) { return per_channel(t, 4).to(at::kDouble); };
      const Tensor mean = e.mean({1, 3}, true), var = e.var({1, 3}, false, true);
      const Tensor batch = (e - mean) * at::rsqrt(var + 1e-5) * each(w) + each(b);
      const Tensor rows = random({2, 6, c});
      const Tensor layer =
          at::layer_norm(rows.to(at::kDouble), {c}) * w.unsqueeze(1) + b.unsqueeze(1);
      const Tensor last = x.movedim(2, -1).contiguous().movedim(-1, 2);
      for_each_target([&](const std::string& target) {
        for (const Tensor& t : {x, last}) {
          EXPECT_LT(error(norms::batch_norm(t, w, b, {}, {}, 0.1, 1e-5)[0], batch), 1e-5) << target;
          EXPECT_LT(error(norms::scale_shift(t, w, b), e * each(w) + each(b)), 1e-6) << target;
        }
        EXPECT_LT(error(norms::layer_norm(rows, w, b, c, 1e-5, false), layer), 2e-5) << target;
      });
    }
}

TEST(NormKernels, NothingOfOneModelReachesAnother) {
  at::manual_seed(4);
  const Tensor x = random({3, 2, 18, 7}), w = at::randn({3, 18}), b = at::randn({3, 18});
  const auto all = [&](const Tensor& t, const Tensor& scale, const Tensor& shift) {
    Tensors out = norms::batch_norm(t, scale, shift, shift, scale, 0.1, 1e-5);
    out.push_back(norms::group_norm(t, scale, shift, 3, 1e-5));
    out.push_back(norms::scale_shift(t, scale, shift));
    out.push_back(norms::layer_norm(t.transpose(2, 3).contiguous(), scale, shift, 18, 1e-5, false));
    return out;
  };
  const Tensors before = all(x, w, b);
  for (int64_t sick = 0; sick < 3; ++sick) {
    Tensors poisoned{x.clone(), w.clone(), b.clone()};
    for (Tensor& t : poisoned) t.select(0, sick).fill_(NAN);
    const Tensors after = all(poisoned[0], poisoned[1], poisoned[2]);
    for (size_t k = 0; k < before.size(); ++k)
      for (int64_t i = 0; i < 3; ++i) {
        if (i != sick) {
          EXPECT_TRUE(before[k][i].equal(after[k][i])) << k;
        } else {
          EXPECT_TRUE(after[k][i].isnan().all().item<bool>()) << k;
        }
      }
  }
}

/// Calls `wide::name.out` over its own first argument or into fresh memory.
Tensor into(const char* name, Stack stack, const Tensor& out) {
  stack.emplace_back(out);
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "out").callBoxed(&stack);
  return out;
}

TEST(NormKernels, InPlaceStreamedAndWithActivations) {
  at::manual_seed(5);
  const Tensor x = random({2, 3, 4, 8, 16}), w = at::randn({2, 4}), b = at::randn({2, 4});
  for (const bool stream : {false, true})
    for (const bool in_place : {false, true})
      for (const char* activation : {"none", "relu", "silu", "elu 1.5 1 1"}) {
        const auto epilogue = [&](const Tensor& t) {
          const Tensor y = t.clone();
          if (const chains::Code* code = activations::find(activation))
            activations::run(*code, y.mutable_data_ptr<float>(), y.numel());
          return y;
        };
        const auto target = [&](const Tensor& t) { return in_place ? t : at::empty_like(t); };
        Tensor a = x.clone();
        EXPECT_TRUE(into("wide::group_norm", {a, w, b, 2, 1e-5, activation, stream}, target(a))
                        .equal(epilogue(norms::group_norm(x, w, b, 2, 1e-5))));
        a = x.clone();
        EXPECT_TRUE(into("wide::scale_shift", {a, w, b, activation, stream}, target(a))
                        .equal(epilogue(norms::scale_shift(x, w, b))));
        a = x.clone();
        const Tensor weight = at::ones({2, 16});
        EXPECT_TRUE(into("wide::layer_norm",
                         {a, weight, Tensor(), 16, 1e-5, false, activation, stream}, target(a))
                        .equal(epilogue(norms::layer_norm(x, weight, {}, 16, 1e-5, false))));
        a = x.clone();
        Stack stack{a, w, b, Tensor(), Tensor(), 0.1, 1e-5, activation, stream};
        const Tensor out = target(a);
        // Held here: the boxed call hands its results back after it has dropped its arguments.
        const Tensors outs{out, at::empty({2, 4}), at::empty({2, 4}), at::empty({0}),
                           at::empty({0})};
        for (const Tensor& t : outs) stack.emplace_back(t);
        c10::Dispatcher::singleton().findSchemaOrThrow("wide::batch_norm", "out").callBoxed(&stack);
        EXPECT_TRUE(out.equal(epilogue(norms::batch_norm(x, w, b, {}, {}, 0.1, 1e-5)[0])));
      }
}

TEST(NormKernels, ActivationsWithChannelsInnermost) {
  at::manual_seed(6);
  const Tensor w = at::randn({2, 19}), b = at::randn({2, 19}), drawn = at::randn({2, 3, 5, 7, 19});
  const Tensor x = drawn.permute({0, 1, 4, 2, 3});
  for_each_target([&](const std::string& target) {
    for (const char* activation : {"relu", "silu", "hardtanh -0.5 6"}) {
      const auto epilogue = [&](const Tensor& t) {
        const Tensor y = t.clone();
        activations::run(*activations::find(activation), y.mutable_data_ptr<float>(), y.numel());
        return y;
      };
      EXPECT_TRUE(into("wide::scale_shift", {x, w, b, activation, false}, at::empty_like(x))
                      .equal(epilogue(norms::scale_shift(x, w, b))))
          << activation << target;
      Stack stack{x, w, b, Tensor(), Tensor(), 0.1, 1e-5, activation, false};
      const Tensors outs{at::empty_like(x), at::empty({2, 19}), at::empty({2, 19}), at::empty({0}),
                         at::empty({0})};
      for (const Tensor& t : outs) stack.emplace_back(t);
      c10::Dispatcher::singleton().findSchemaOrThrow("wide::batch_norm", "out").callBoxed(&stack);
      EXPECT_TRUE(outs[0].equal(epilogue(norms::batch_norm(x, w, b, {}, {}, 0.1, 1e-5)[0])))
          << activation << target;
    }
  });
}

TEST(NormKernels, GradientIsRefused) {
  const Tensor x = at::randn({2, 3, 4, 5}).requires_grad_();
  const Tensor y = norms::group_norm(x, {}, {}, 2, 1e-5);
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

}  // namespace
}  // namespace wide::testing::norms_test
