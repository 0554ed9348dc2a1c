// Losses, recurrent cells, embedding bags and attention kernels in every form that programs contain
// them: each has a rule, and equals the separate models. Gradients inside a program as well.
#include "tests/primitives/claims.h"

namespace wide::testing::loss_claims_test {
namespace {

const std::vector<int64_t> kReductions{at::Reduction::None, at::Reduction::Mean,
                                       at::Reduction::Sum};

/// The loss and its gradient by the scores, as a training step holds them.
Function with_gradient(const std::function<Tensor(const Tensors&)>& loss) {
  return [loss](const Tensors& in) -> Tensors {
    const at::AutoGradMode grad(true);
    Tensors own = in;
    own[0] = in[0].detach().requires_grad_();
    const Tensor y = loss(own);
    (y * y.detach().add(1)).sum().backward();
    return {y.detach(), own[0].grad()};
  };
}

TEST(LossClaims, MultiMargin) {
  const Tensor weight = random({3, 4}).abs() + 0.1;
  for (const int64_t reduction : kReductions)
    for (const int64_t p : {1, 2}) {
      const Tensors batch{random({3, 5, 4}), at::randint(0, 4, {3, 5}), weight};
      expect_claimed("multi_margin_loss", batch, with_gradient([=](const Tensors& in) {
                       return at::multi_margin_loss(in[0], in[1], p, 0.7, in[2], reduction);
                     }));
      const Tensors single{random({3, 4}), at::randint(0, 4, {3, 1})};
      expect_claimed("multi_margin_loss", single, with_gradient([=](const Tensors& in) {
                       return at::multi_margin_loss(in[0], in[1], p, 1.0, {}, reduction);
                     }));
    }
}

TEST(LossClaims, MultilabelMargin) {
  Tensor target = at::stack({at::randperm(4), at::randperm(4), at::randperm(4)});
  target.select(1, 3).fill_(-1);
  target.select(0, 1).select(0, 1).fill_(-1);
  const Tensor targets = at::stack({target, target.roll(1, 0)}, 1);  // [3, 2, 4]
  for (const int64_t reduction : kReductions) {
    const auto loss = [=](const Tensors& in) {
      return at::multilabel_margin_loss(in[0], in[1], reduction);
    };
    expect_claimed("multilabel_margin_loss", {random({3, 2, 4}), targets}, with_gradient(loss));
    expect_claimed("multilabel_margin_loss", {random({3, 4}), target}, with_gradient(loss));
  }
}

TEST(LossClaims, SoftMargin) {
  for (const int64_t reduction : kReductions) {
    const auto loss = [=](const Tensors& in) {
      return at::soft_margin_loss(in[0], in[1], reduction);
    };
    for (const Sizes& sizes : {Sizes{3, 5, 4}, Sizes{3, 2}})
      expect_claimed("soft_margin_loss", {random(sizes), random(sizes).sign()},
                     with_gradient(loss));
  }
}

TEST(LossClaims, Ctc) {
  const Tensor scores = random({3, 7, 2, 5});
  const Tensor padded = at::randint(1, 5, {3, 2, 3}), joined = at::randint(1, 5, {3, 5});
  const auto loss = [](int64_t reduction, bool zero) {
    return [=](const Tensors& in) {
      return at::ctc_loss(in[0].log_softmax(-1), in[1], at::IntArrayRef{7, 6},
                          at::IntArrayRef{3, 2}, 0, reduction, zero);
    };
  };
  for (const int64_t reduction : kReductions) {
    expect_claimed("ctc_loss", {scores, padded}, with_gradient(loss(reduction, false)));
    expect_claimed("ctc_loss", {scores, joined}, with_gradient(loss(reduction, true)));
  }
}

TEST(LossClaims, CrossEntropyInAllItsForms) {
  const Tensor weight = random({3, 4}).abs() + 0.1;
  Tensor classes = at::randint(0, 4, {3, 5}), pixels = at::randint(0, 4, {3, 2, 3, 2});
  classes.select(1, 2).fill_(-100);
  pixels.select(1, 0).select(1, 1).fill_(-100);
  for (const int64_t reduction : kReductions)
    for (const double smoothing : {0.0, 0.2}) {
      SCOPED_TRACE(fmt::format("reduction {} smoothing {}", reduction, smoothing));
      const auto weighed = with_gradient([=](const Tensors& in) {
        return at::cross_entropy_loss(in[0], in[1], in[2], reduction, -100, smoothing);
      });
      const auto plain = with_gradient([=](const Tensors& in) {
        return at::cross_entropy_loss(in[0], in[1], {}, reduction, -100, smoothing);
      });
      expect_claimed("nll_loss", {random({3, 5, 4}), classes, weight}, weighed);
      expect_claimed("nll_loss", {random({3, 5, 4}), classes}, plain);
      expect_claimed("nll_loss2d", {random({3, 2, 4, 3, 2}), pixels, weight}, weighed);
      expect_claimed("nll_loss2d", {random({3, 2, 4, 3, 2}), pixels}, plain);
      expect_claimed("nll_loss2d_backward", {random({3, 2, 4, 6}), pixels.flatten(2)}, plain);
    }
}

TEST(LossClaims, Fills) {
  expect_claimed("fill", {random({3, 2, 4})},
                 [](const Tensors& in) -> Tensors { return {at::fill(in[0], 2.5)}; });
}

Tensors cell_tensors(int64_t gates) {
  return {random({3, 2, 5}),         random({3, 2, 4}),      random({3, gates * 4, 5}),
          random({3, gates * 4, 4}), random({3, gates * 4}), random({3, gates * 4}),
          random({3, 2, 4})};
}

TEST(CellClaims, EveryCell) {
  expect_claimed("recurrent_cell", cell_tensors(1), [](const Tensors& in) -> Tensors {
    return {at::rnn_tanh_cell(in[0], in[1], in[2], in[3], in[4], in[5])};
  });
  expect_claimed("recurrent_cell", cell_tensors(1), [](const Tensors& in) -> Tensors {
    return {at::rnn_relu_cell(in[0], in[1], in[2], in[3])};
  });
  expect_claimed("recurrent_cell", cell_tensors(3), [](const Tensors& in) -> Tensors {
    return {at::gru_cell(in[0], in[1], in[2], in[3], in[4], in[5])};
  });
  expect_claimed("recurrent_cell", cell_tensors(4), [](const Tensors& in) -> Tensors {
    const auto [y, c] = at::lstm_cell(in[0], {in[1], in[6]}, in[2], in[3], in[4], in[5]);
    return {y, c};
  });
}

TEST(CellClaims, Bilinear) {
  const Tensors t{random({3, 2, 5}), random({3, 2, 4}), random({3, 6, 5, 4}), random({3, 6})};
  expect_claimed("trilinear", t, with_gradient([](const Tensors& in) {
                   return at::bilinear(in[0], in[1], in[2], in[3]);
                 }));
}

TEST(BagClaims, EveryMode) {
  const Tensor table = random({3, 7, 2}), ids = at::randint(0, 7, {3, 9});
  const Tensor offsets = at::tensor({0, 4, 4, 0, 0, 8, 0, 2, 3}, at::kLong).view({3, 3});
  const Tensor closed = at::cat({offsets, at::full({3, 1}, 9, at::kLong)}, 1);
  const Tensor scale = random({3, 9});
  for (const int64_t mode : {0, 1, 2})
    for (const int64_t padding : {-1, 2}) {
      SCOPED_TRACE(fmt::format("mode {} padding {}", mode, padding));
      const auto bag = [=](bool last, bool scaled) {
        return [=](const Tensors& in) -> Tensors {
          return {std::get<0>(at::_embedding_bag(in[0], in[1], in[2], false, mode, false,
                                                 scaled ? std::optional(in[3]) : std::nullopt, last,
                                                 padding))};
        };
      };
      expect_claimed("embedding_bag", {table, ids, offsets}, bag(false, false));
      expect_claimed("embedding_bag", {table, ids, closed}, bag(true, false));
      if (mode == 0)
        expect_claimed("embedding_bag", {table, ids, offsets, scale}, bag(false, true));
    }
  expect_claimed("embedding_bag", {table, ids, offsets}, [](const Tensors& in) -> Tensors {
    return {std::get<0>(at::embedding_bag(in[0], in[1], in[2], false, 1))};
  });
}

TEST(AttentionClaims, KernelsAndTheirGradients) {
  const Tensor q = random({3, 2, 2, 5, 4}), k = random({3, 2, 2, 7, 4}),
               v = random({3, 2, 2, 7, 4});
  for (const bool causal : {false, true}) {
    const Tensors t{random({3, 2, 2, 7, 4}), k, v};
    expect_claimed("attention_kernels", t, [=](const Tensors& in) -> Tensors {
      return {std::get<0>(
          at::_scaled_dot_product_flash_attention_for_cpu(in[0], in[1], in[2], 0.0, causal))};
    });
    // Inside a training step the region is open: its statistics are read by the way back.
    expect_claimed("attention_kernels", t, with_gradient([=](const Tensors& in) {
                     return at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, causal);
                   }));
  }
  for (const Sizes& sizes : {Sizes{3, 5, 7}, Sizes{3, 2, 1, 1, 7}, Sizes{3, 1, 2, 5, 7}})
    expect_claimed("attention_kernels", {q, k, v, random(sizes)},
                   with_gradient([](const Tensors& in) {
                     return at::scaled_dot_product_attention(in[0], in[1], in[2], in[3]);
                   }));
}

TEST(AttentionClaims, OneHeadOfKeysForAll) {
  const Tensors t{random({3, 2, 4, 5, 6}), random({3, 2, 1, 7, 6}), random({3, 2, 1, 7, 6}),
                  random({3, 5, 7})};
  expect_claimed("attention", t, [](const Tensors& in) -> Tensors {
    return {at::scaled_dot_product_attention(in[0], in[1], in[2]),
            at::scaled_dot_product_attention(in[0], in[1], in[2], in[3])};
  });
  // The other way round it is right too, if not by a strategy.
  expect_covered({t[1], t[0], t[0]}, [](const Tensors& in) -> Tensors {
    return {at::scaled_dot_product_attention(in[0], in[1], in[2])};
  });
}

TEST(AttentionClaims, OnlyWhatDropsIsRandom) {
  const at::NoGradGuard guard;
  for (const double p : {0.0, 0.25}) {
    Network network;
    network.tensors.push_back({"x", Role::input, {}});
    network.forward = [p](const Tensors& t) -> Tensors {
      return {at::scaled_dot_product_attention(t[0], t[0], t[0], {}, p)};
    };
    const Program single = record_one(network, {random({2, 2, 5, 4})});
    const bool draws = std::any_of(single.nodes.begin(), single.nodes.end(),
                                   [](const Node& node) { return node.is_random(); });
    EXPECT_EQ(draws, p > 0) << single.text();
  }
}

TEST(Rules, WeightNormAndOneHot) {
  for (const int64_t dim : {0, 1}) {
    const Sizes norms = dim == 0 ? Sizes{3, 5, 1} : Sizes{3, 1, 4};
    expect_covered({random({3, 5, 4}), random(norms)}, [=](const Tensors& in) -> Tensors {
      return {at::_weight_norm(in[0], in[1], dim)};
    });
  }
  expect_covered({at::randint(6, {3, 4, 2})}, [](const Tensors& in) -> Tensors {
    return {at::one_hot(in[0], 6), at::one_hot(in[0], 9).sum(0)};
  });
}

TEST(LinearClaims, VectorsAndBatches) {
  const Tensors vector{random({3, 6, 5}), random({3, 5}), random({3, 6})};
  expect_covered(vector, [](const Tensors& in) -> Tensors {
    return {at::mv(in[0], in[1]), at::addmv(in[2], in[0], in[1], 0.5, 2.0)};
  });
  const Tensors batch{random({3, 2, 4, 5}), random({3, 2, 5, 6}), random({3, 2, 4, 6})};
  expect_covered(batch, [](const Tensors& in) -> Tensors {
    return {at::bmm(in[0], in[1]), at::baddbmm(in[2], in[0], in[1], 0.5, 2.0),
            at::matmul(in[0], in[1])};
  });
  expect_claimed("linear", {random({3, 2, 4, 5}), random({3, 5, 6})},
                 [](const Tensors& in) -> Tensors { return {at::matmul(in[0], in[1])}; });
  expect_claimed("linear", {random({3, 4, 5}), random({3, 6, 5})},
                 [](const Tensors& in) -> Tensors { return {at::linear(in[0], in[1])}; });
}

}  // namespace
}  // namespace wide::testing::loss_claims_test
