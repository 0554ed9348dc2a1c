// Recorded calls in every form that programs contain them: operators below the composite ones,
// rules without a network of their own, masks, losses.
#include "tests/primitives/claims.h"

namespace wide::testing {
namespace {

struct Recorded {
  Ensemble ensemble;
  Program single;
  Tensors loop;
};

Recorded record_all(const Tensors& wide, const Function& function) {
  Network network;
  Recorded r;
  r.ensemble.n = wide.at(0).size(0);
  for (const Tensor& t : wide) {
    network.tensors.push_back({fmt::format("t{}", r.ensemble.tensors.size()), Role::input, {}});
    r.ensemble.tensors.push_back(t);
    r.ensemble.shared.push_back(false);
  }
  network.forward = function;
  r.single = record_one(network, r.ensemble.model(0));
  r.loop = separate_models(network, r.single, r.ensemble);
  return r;
}

}  // namespace

void expect_claimed(const std::string& target, const Tensors& wide, const Function& function) {
  const at::NoGradGuard guard;
  SCOPED_TRACE(target);
  const Recorded r = record_all(wide, function);
  const auto all = claimants();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Rule* rule) { return rule->name == target; });
  ASSERT_NE(found, all.end());
  for (const Strategy& strategy : (*found)->strategies) {
    Coverage coverage;
    const Tensors got = wide_models(r.single, r.ensemble, {{target, strategy.name}}, &coverage);
    EXPECT_LT(relative_error(got, r.loop), 1e-10) << strategy.name;
    bool claimed = false;
    for (const CoverageItem& item : coverage.items) claimed |= item.primitive == target;
    EXPECT_TRUE(claimed) << strategy.name << "\n" << r.single.text();
    EXPECT_EQ(coverage.counts()[Way::per_model], 0) << strategy.name << "\n" << r.single.text();
  }
}

void expect_covered(const Tensors& wide, const Function& function) {
  const at::NoGradGuard guard;
  const Recorded r = record_all(wide, function);
  Coverage coverage;
  const Tensors got = wide_models(r.single, r.ensemble, {}, &coverage);
  EXPECT_LT(relative_error(got, r.loop), 1e-10);
  EXPECT_EQ(coverage.counts()[Way::per_model], 0) << r.single.text();
}

namespace {

TEST(Claims, MatrixProducts) {
  const Tensors t{random({3, 4, 5}), random({3, 6, 5}), random({3, 6})};
  expect_claimed("linear", t,
                 [](const Tensors& in) -> Tensors { return {at::addmm(in[2], in[0], in[1].t())}; });
  expect_claimed("linear", t,
                 [](const Tensors& in) -> Tensors { return {at::mm(in[0], in[1].t())}; });
  expect_claimed("linear", {random({3, 4, 5}), random({3, 5, 2})},
                 [](const Tensors& in) -> Tensors { return {at::mm(in[0], in[1])}; });
  // One sample without a batch axis.
  expect_claimed("linear", {random({3, 5}), random({3, 6, 5}), random({3, 6})},
                 [](const Tensors& in) -> Tensors { return {at::linear(in[0], in[1], in[2])}; });
}

TEST(Claims, ABiasThatBroadcastsIsAdded) {
  const auto whole = [](Sizes sizes) { return at::randint(-3, 4, sizes, at::kFloat); };
  for (const Sizes& bias : {Sizes{3, 1}, Sizes{3}})  // exact in single precision
    expect_covered({whole({3, 4, 5}), whole({3, 6, 5}), whole(bias)},
                   [](const Tensors& in) -> Tensors { return {at::linear(in[0], in[1], in[2])}; });
}

TEST(Claims, Convolutions) {
  const Tensors t{random({3, 2, 4, 6, 5}), random({3, 6, 2, 3, 3}), random({3, 6})};
  expect_claimed("conv2d", t, [](const Tensors& in) -> Tensors {
    return {at::convolution(in[0], in[1], in[2], {1, 2}, {1, 0}, {1, 1}, false, {0, 0}, 2)};
  });
  expect_claimed("conv2d", t, [](const Tensors& in) -> Tensors {
    return {at::_convolution(in[0], in[1], in[2], {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 2, false,
                             false, true, true)};
  });
  expect_claimed("conv2d", t, [](const Tensors& in) -> Tensors {
    return {at::conv2d(in[0], in[1], in[2], at::IntArrayRef{1, 1}, "same", {1, 1}, 2)};
  });
  expect_claimed("conv1d", {random({3, 2, 4, 9}), random({3, 6, 4, 3})},
                 [](const Tensors& in) -> Tensors { return {at::conv1d(in[0], in[1], {}, 2, 1)}; });
  // One image without a batch axis.
  expect_claimed("conv1d", {random({3, 4, 9}), random({3, 6, 4, 3})},
                 [](const Tensors& in) -> Tensors { return {at::conv1d(in[0], in[1])}; });
  const Tensors cubes{random({3, 2, 4, 3, 5, 4}), random({3, 6, 2, 3, 2, 1}), random({3, 6})};
  expect_claimed("conv3d", cubes, [](const Tensors& in) -> Tensors {
    return {at::conv3d(in[0], in[1], in[2], {1, 2, 1}, {1, 1, 0}, {1, 1, 2}, 2)};
  });
  expect_claimed("conv3d", cubes, [](const Tensors& in) -> Tensors {
    return {
        at::convolution(in[0], in[1], in[2], {1, 2, 1}, {1, 1, 0}, {1, 2, 1}, false, {0, 0, 0}, 2)};
  });
}

TEST(Claims, ConvolutionsWithNamedPadding) {
  const Tensors line{random({3, 2, 4, 9}), random({3, 6, 4, 4}), random({3, 6})};
  const Tensors cube{random({3, 2, 4, 3, 5, 4}), random({3, 6, 4, 3, 3, 1}), random({3, 6})};
  for (const char* padding : {"same", "valid"}) {
    expect_claimed("conv1d", line, [=](const Tensors& in) -> Tensors {
      return {at::conv1d(in[0], in[1], in[2], at::IntArrayRef{1}, padding, {2})};
    });
    expect_claimed("conv1d", line, [=](const Tensors& in) -> Tensors {  // two ends that differ
      return {at::conv1d(in[0], in[1], in[2], at::IntArrayRef{1}, padding, {1})};
    });
    expect_claimed("conv3d", cube, [=](const Tensors& in) -> Tensors {
      return {at::conv3d(in[0], in[1], in[2], at::IntArrayRef{1, 1, 1}, padding, {1, 1, 1})};
    });
  }
}

TEST(Claims, TransposedConvolutions) {
  const Tensors line{random({3, 2, 4, 5}), random({3, 4, 3, 3}), random({3, 6})};
  expect_claimed("convtranspose1d", line, [](const Tensors& in) -> Tensors {
    return {at::conv_transpose1d(in[0], in[1], in[2], 3, 1, 2, 2, 1)};
  });
  expect_claimed("convtranspose1d", {line[0], line[1]}, [](const Tensors& in) -> Tensors {
    return {at::conv_transpose1d(in[0], in[1], {}, 1, 0, 0, 2, 3)};
  });
  const Tensors image{random({3, 2, 4, 3, 5}), random({3, 4, 3, 2, 3}), random({3, 6})};
  expect_claimed("convtranspose2d", image, [](const Tensors& in) -> Tensors {
    return {at::conv_transpose2d(in[0], in[1], in[2], {2, 1}, {0, 1}, {1, 0}, 2, {1, 2})};
  });
  expect_claimed("convtranspose2d", image, [](const Tensors& in) -> Tensors {
    return {at::convolution(in[0], in[1], in[2], {2, 3}, {1, 0}, {1, 1}, true, {0, 2}, 2)};
  });
  expect_claimed("convtranspose2d", image, [](const Tensors& in) -> Tensors {
    return {at::_convolution(in[0], in[1], in[2], {2, 2}, {1, 1}, {1, 1}, true, {1, 0}, 2, false,
                             false, true, true)};
  });
}

/// What nn.ConvNd records for its padding modes: a padding that widens, then a convolution.
TEST(Claims, PaddingModesInFrontOfConvolutions) {
  for (const int64_t dims : {1, 2, 3})
    for (const char* mode : {"constant", "reflect", "replicate", "circular"}) {
      SCOPED_TRACE(mode);
      Sizes x{3, 2, 4}, w{3, 2, 4};
      x.insert(x.end(), static_cast<size_t>(dims), 5);
      w.insert(w.end(), static_cast<size_t>(dims), 3);
      Sizes pads;
      for (int64_t k = 0; k < dims; ++k) pads.insert(pads.end(), {2, k + 1});
      expect_claimed(
          fmt::format("conv{}d", dims), {random(x), random(w)}, [=](const Tensors& in) -> Tensors {
            const Tensor padded = at::pad(in[0], pads, mode);
            const Sizes ones(static_cast<size_t>(dims), 1);
            const Sizes zeros(static_cast<size_t>(dims), 0);
            return {at::convolution(padded, in[1], {}, ones, zeros, ones, false, zeros, 1)};
          });
    }
}

TEST(Claims, Norms) {
  expect_claimed("layernorm", {random({3, 2, 4, 5}), random({3, 4, 5})},
                 [](const Tensors& in) -> Tensors {
                   return {at::layer_norm(in[0], {4, 5}, in[1], {}, 1e-5)};
                 });
  expect_claimed("layernorm", {random({3, 2, 4, 5})}, [](const Tensors& in) -> Tensors {
    return {std::get<0>(at::native_layer_norm(in[0], {5}, {}, {}, 1e-5))};
  });
  expect_claimed(
      "groupnorm", {random({3, 2, 4, 5}), random({3, 4}), random({3, 4})},
      [](const Tensors& in) -> Tensors {
        return {std::get<0>(at::native_group_norm(in[0], in[1], in[2], 2, 4, 5, 2, 1e-5))};
      });
  expect_claimed("groupnorm", {random({3, 2, 4})},
                 [](const Tensors& in) -> Tensors { return {at::group_norm(in[0], 2)}; });
}

TEST(Claims, BatchNormsOfEveryRank) {
  const std::vector<std::pair<const char*, Sizes>> ranks{{"batchnorm1d", {3, 2, 4}},
                                                         {"batchnorm1d", {3, 2, 4, 5}},
                                                         {"batchnorm2d", {3, 2, 4, 5, 2}},
                                                         {"batchnorm3d", {3, 2, 4, 2, 3, 2}}};
  for (const auto& [name, sizes] : ranks) {
    SCOPED_TRACE(sizes.size());
    const Tensors t{random(sizes), random({3, 4}), random({3, 4}), random({3, 4}),
                    random({3, 4}).abs() + 0.5};
    expect_claimed(name, t, [](const Tensors& in) -> Tensors {
      return {at::batch_norm(in[0], in[1], in[2], in[3], in[4], false, 0.1, 1e-3, true)};
    });
    expect_claimed(name, t, [](const Tensors& in) -> Tensors {
      return {std::get<0>(
          at::_native_batch_norm_legit_no_training(in[0], in[1], in[2], in[3], in[4], 0.1, 1e-5))};
    });
    expect_claimed(name, t, [](const Tensors& in) -> Tensors {
      return {
          std::get<0>(at::native_batch_norm(in[0], in[1], in[2], in[3], in[4], false, 0.1, 1e-5))};
    });
    expect_claimed(name, t, [](const Tensors& in) -> Tensors {
      return {std::get<0>(at::_native_batch_norm_legit_functional(in[0], in[1], {}, in[3], in[4],
                                                                  true, 0.2, 1e-5))};
    });
    expect_claimed(name, t, [](const Tensors& in) -> Tensors {
      return {std::get<0>(at::_native_batch_norm_legit(in[0], in[1], in[2], true, 0.1, 1e-5))};
    });
    expect_claimed(name, t, [](const Tensors& in) -> Tensors {
      return {std::get<0>(at::native_batch_norm(in[0], in[1], {}, {}, {}, true, 0.1, 1e-5))};
    });
    expect_claimed(name, t, [](const Tensors& in) -> Tensors {  // no affine part, batch only
      return {at::batch_norm(in[0], {}, {}, {}, {}, true, 0.1, 1e-5, false)};
    });
  }
}

TEST(Claims, InstanceNorms) {
  const Tensors t{random({3, 2, 4, 5, 2}), random({3, 4}), random({3, 4}), random({3, 4}),
                  random({3, 4}).abs() + 0.5};
  expect_claimed("instancenorm2d", t, [](const Tensors& in) -> Tensors {
    return {at::instance_norm(in[0], in[1], in[2], {}, {}, true, 0.1, 1e-5, true)};
  });
  expect_claimed("instancenorm2d", {random({3, 2, 4, 7})}, [](const Tensors& in) -> Tensors {
    return {at::instance_norm(in[0], {}, {}, {}, {}, true, 0.1, 1e-5, true)};
  });
  // In use, tracked statistics make it a batch norm in eval mode.
  expect_claimed("batchnorm2d", t, [](const Tensors& in) -> Tensors {
    return {at::instance_norm(in[0], in[1], in[2], in[3], in[4], false, 0.1, 1e-5, true)};
  });
}

TEST(Claims, RmsNormAsOperatorAndByHand) {
  const Tensors t{random({3, 2, 4, 5}), random({3, 5})};
  const auto root = [](const Tensor& x) { return (x * x).mean({-1}, true) + 1e-6; };
  const std::vector<Function> forms{
      [](const Tensors& in) -> Tensors { return {at::rms_norm(in[0], {5}, in[1], 1e-6)}; },
      [](const Tensors& in) -> Tensors { return {at::rms_norm(in[0], {5}, in[1])}; },
      [](const Tensors& in) -> Tensors {
        return {std::get<0>(at::_fused_rms_norm(in[0], {5}, in[1], 1e-6))};
      },
      [](const Tensors& in) -> Tensors {
        return {in[1] * (in[0] * at::rsqrt(in[0].pow(2).mean({-1}, true) + 1e-6))};
      },
      [&](const Tensors& in) -> Tensors { return {at::rsqrt(root(in[0])) * in[0] * in[1]}; },
      [&](const Tensors& in) -> Tensors { return {in[0] / root(in[0]).sqrt() * in[1]}; },
      [&](const Tensors& in) -> Tensors { return {in[0] * root(in[0]).pow(-0.5) * in[1]}; },
      [&](const Tensors& in) -> Tensors { return {in[0] * root(in[0]).sqrt().reciprocal()}; },
      [&](const Tensors& in) -> Tensors {  // scaled by what is no weight
        return {in[0] * at::rsqrt(root(in[0])) * in[0]};
      },
      [&](const Tensors& in) -> Tensors {  // divided by what looks like a weight
        return {in[0] * at::rsqrt(root(in[0])) / in[1]};
      }};
  for (const Function& form : forms) expect_claimed("rmsnorm", t, form);
}

TEST(Claims, WhatLooksLikeRmsNormButIsNot) {
  const at::NoGradGuard guard;
  const Tensors t{random({3, 2, 4, 5}), random({3, 2, 4, 5})};
  const std::vector<Function> forms{
      [](const Tensors& in) -> Tensors {  // the mean square is that of another tensor
        return {in[0] * at::rsqrt(in[1].pow(2).mean({-1}, true) + 1e-6)};
      },
      [](const Tensors& in) -> Tensors {  // over another axis
        return {in[0] * at::rsqrt(in[0].pow(2).mean({-2}, true) + 1e-6)};
      },
      [](const Tensors& in) -> Tensors {  // the root is read outside as well
        const Tensor r = at::rsqrt(in[0].pow(2).mean({-1}, true) + 1e-6);
        return {in[0] * r, r};
      }};
  for (const Function& form : forms) {
    Network network;
    network.tensors = {{"a", Role::input, {}}, {"b", Role::input, {}}};
    network.forward = form;
    const Ensemble ensemble{3, t, {false, false}};
    const Program single = record_one(network, ensemble.model(0));
    Coverage coverage;
    const Tensors got = wide_models(single, ensemble, {}, &coverage);
    EXPECT_LT(relative_error(got, separate_models(network, single, ensemble)), 1e-10);
    for (const CoverageItem& item : coverage.items) EXPECT_NE(item.primitive, "rmsnorm");
    EXPECT_EQ(coverage.counts()[Way::per_model], 0);
  }
}

TEST(Claims, ModulatedLayerNorm) {
  const char* name = "ada_layer_norm_zero_single";
  const auto norm = [](const Tensor& x) { return at::layer_norm(x, {5}, {}, {}, 1e-6); };
  expect_claimed(name, {random({3, 2, 4, 5}), random({3, 2, 5}), random({3, 2, 5})},
                 [&](const Tensors& in) -> Tensors {
                   return {in[2].unsqueeze(1) + (1 + in[1].unsqueeze(1)) * norm(in[0])};
                 });
  expect_claimed(name, {random({3, 2, 4, 5}), random({3, 5}), random({3, 5})},
                 [&](const Tensors& in) -> Tensors { return {norm(in[0]) * in[1] + in[2]}; });
  expect_claimed(name, {random({3, 2, 5}), random({3, 2, 5}), random({3, 2, 5})},
                 [&](const Tensors& in) -> Tensors { return {norm(in[0]) * in[1] + in[2]}; });
  // A norm whose value is read elsewhere too stays what it is.
  expect_claimed("layernorm", {random({3, 2, 5}), random({3, 2, 5}), random({3, 2, 5})},
                 [&](const Tensors& in) -> Tensors {
                   const Tensor y = norm(in[0]);
                   return {y * in[1] + in[2], y};
                 });
}

TEST(Claims, AttentionWithMasks) {
  const Tensor q = random({3, 2, 2, 5, 4}), k = random({3, 2, 2, 7, 4}),
               v = random({3, 2, 2, 7, 4});
  const auto attend = [](const Tensors& in) -> Tensors {
    return {at::scaled_dot_product_attention(in[0], in[1], in[2], in[3])};
  };
  for (const Sizes& sizes : {Sizes{3, 5, 7}, Sizes{3, 2, 1, 1, 7}, Sizes{3, 1, 2, 5, 7}}) {
    expect_claimed("attention", {q, k, v, random(sizes)}, attend);
    Tensor keep = random(sizes).gt(0);
    keep.select(-1, 0).fill_(true);
    expect_claimed("attention", {q, k, v, keep}, attend);
    // One query has no key at all: PyTorch's attention gives 0.
    Tensor none = keep.clone();
    none.select(-2, 0).fill_(false);
    expect_claimed("attention", {q, k, v, none}, attend);
    expect_claimed("attention",
                   {q, k, v, at::zeros(sizes).masked_fill(none.logical_not(), -INFINITY)}, attend);
  }
  expect_claimed("attention", {q, k, v}, [](const Tensors& in) -> Tensors {
    return {at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, false, 0.3)};
  });
  expect_claimed("attention", {random({3, 2, 4, 5, 4}), k, v}, [](const Tensors& in) -> Tensors {
    return {at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, false, {}, true)};
  });
  expect_claimed("attention", {random({3, 2, 5, 4}), random({3, 2, 7, 4}), random({3, 2, 7, 4})},
                 [](const Tensors& in) -> Tensors {
                   return {at::scaled_dot_product_attention(in[0], in[1], in[2])};
                 });
}

TEST(Claims, PoolsInBothFoldings) {
  const Tensor stacked = random({3, 2, 4, 6, 7});
  const Tensor packed = stacked.transpose(0, 1).contiguous().transpose(0, 1);
  const Tensor innermost = stacked.permute({1, 3, 4, 0, 2}).contiguous().permute({3, 0, 4, 1, 2});
  for (const Tensor& x : {stacked, packed, innermost}) {
    expect_claimed("pooling", {x}, [](const Tensors& in) -> Tensors {
      const auto [y, indices] =
          at::max_pool2d_with_indices(in[0], {3, 2}, {2, 2}, {1, 0}, {1, 1}, true);
      return {y, indices};
    });
    expect_claimed("pooling", {x},
                   [](const Tensors& in) -> Tensors { return {at::max_pool2d(in[0], 2)}; });
    expect_claimed("pooling", {x}, [](const Tensors& in) -> Tensors {
      return {at::avg_pool2d(in[0], {2, 3}, {1, 2}, {1, 1}, false, false, 5)};
    });
    expect_claimed("adaptiveavgpool2d", {x}, [](const Tensors& in) -> Tensors {
      return {at::adaptive_avg_pool2d(in[0], {2, 3})};
    });
    expect_claimed("adaptiveavgpool2d", {x}, [](const Tensors& in) -> Tensors {
      return {at::_adaptive_avg_pool2d(in[0], {4, 5})};
    });
  }
}

TEST(Claims, ClassTargetLosses) {
  const Tensor scores = random({3, 5, 4}), weight = random({3, 4}).abs() + 0.1;
  Tensor classes = at::randint(0, 4, {3, 5});
  classes.select(1, 2).fill_(-100);
  for (const int64_t reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum}) {
    expect_claimed("nll_loss", {scores, classes, weight}, [=](const Tensors& in) -> Tensors {
      return {at::cross_entropy_loss(in[0], in[1], in[2], reduction)};
    });
    expect_claimed("nll_loss", {scores, classes}, [=](const Tensors& in) -> Tensors {
      return {at::nll_loss(in[0], in[1], {}, reduction)};
    });
  }
}

TEST(Claims, ClassWeightsThatAreTheSameForAll) {
  const Tensor weight = random({4}).abs() + 0.1;
  expect_claimed("nll_loss", {random({3, 5, 4}), at::randint(0, 4, {3, 5})},
                 [=](const Tensors& in) -> Tensors {
                   return {at::nll_loss(in[0], in[1], weight, at::Reduction::Mean)};
                 });
}

TEST(Claims, AssignmentsUnderAMask) {
  const Tensor x = random({3, 4, 5, 2});
  const auto covered = [&](const Function& function) {
    expect_claimed("masked_assignment", {x, random({3, 2})}, function);
  };
  const auto put = [](const Tensor& to, std::vector<std::optional<Tensor>> at, const Tensor& v) {
    c10::List<std::optional<Tensor>> list;
    for (const auto& i : at) list.push_back(i);
    return to.index_put(list, v);
  };
  covered([=](const Tensors& in) -> Tensors {  // y[y < 0] = number
    return {put(in[0], {in[0] < 0}, at::scalar_tensor(0.5, in[0].options()))};
  });
  covered([=](const Tensors& in) -> Tensors {  // y[mask of the first axes] = a row, of each model
    return {put(in[0], {in[0].sum(-1) < 0}, in[1]),
            put(in[0], {in[0].sum(-1) < 0}, in[1].unsqueeze(0))};
  });
  covered([=](const Tensors& in) -> Tensors {  // y[:, mask, :]
    return {put(in[0], {std::nullopt, in[0].sum(0).sum(-1) < 0}, in[1])};
  });
  expect_covered({x}, [](const Tensors& in) -> Tensors {  // in place, on a view
    const Tensor y = in[0].clone();
    c10::List<std::optional<Tensor>> list;
    list.push_back(y.select(0, 1) > 0);
    y.select(0, 1).index_put_(list, at::scalar_tensor(2.0, y.options()));
    return {y};
  });
}

TEST(Claims, SamplesOfABatchThatAreTreatedAlike) {
  expect_claimed("affine_grid", {random({3, 2, 2, 3})}, [](const Tensors& in) -> Tensors {
    return {at::affine_grid_generator(in[0], {2, 4, 5, 6}, false)};
  });
  expect_claimed("affine_grid", {random({3, 2, 3, 4})}, [](const Tensors& in) -> Tensors {
    return {at::affine_grid_generator(in[0], {2, 4, 5, 6, 2}, true)};
  });
  for (const Sizes& sizes : {Sizes{3, 2, 4, 6, 8}, Sizes{3, 4, 6, 8}})
    expect_claimed("max_unpool2d", {random(sizes)}, [](const Tensors& in) -> Tensors {
      const auto [y, at] = at::max_pool2d_with_indices(in[0], {2, 2});
      return {at::max_unpool2d(y, at, {7, 9})};
    });
  for (const Sizes& sizes : {Sizes{3, 2, 4, 6, 8, 4}, Sizes{3, 4, 6, 8, 4}})
    expect_claimed("max_unpool3d", {random(sizes)}, [](const Tensors& in) -> Tensors {
      const auto [y, at] = at::max_pool3d_with_indices(in[0], {2, 2, 2});
      return {at::max_unpool3d(y, at, {6, 8, 4}, {2, 2, 2}, {0, 0, 0})};
    });
}

TEST(Claims, RandomSlopesWithoutTraining) {
  expect_covered({random({3, 4, 5})}, [](const Tensors& in) -> Tensors {
    const auto [y, noise] =
        at::rrelu_with_noise_functional(in[0], at::zeros_like(in[0]), 0.125, 0.5, false);
    return {y, at::rrelu(in[0], 0.1, 0.3, false)};
  });
}

TEST(Claims, ComplexNumbers) {
  const auto complex = [](Sizes sizes) {
    return at::randn(sizes, at::TensorOptions().dtype(at::kComplexDouble));
  };
  expect_covered({complex({3, 4, 5}), complex({3, 5, 2})}, [](const Tensors& in) -> Tensors {
    const Tensor y = in[0].matmul(in[1]);
    return {y, y.abs(), at::view_as_real(y)};
  });
}

TEST(Claims, GradientOfALossInsideTheProgram) {
  const Tensors t{random({3, 5, 4}), at::randint(0, 6, {3, 5}), random({3, 6, 4}), random({3, 6})};
  const auto step = [](const Tensors& in) -> Tensors {
    const at::AutoGradMode grad(true);
    const Tensor w = in[2].detach().requires_grad_();
    const Tensor loss = at::cross_entropy_loss(at::linear(in[0], w, in[3]), in[1]);
    loss.backward();
    return {loss.detach(), w.grad()};
  };
  expect_claimed("nll_loss_backward", t, step);
}

TEST(Claims, DropoutThatIsNotRandomIsExact) {
  for (const double p : {0.0, 1.0})
    for (const char* strategy : {"independent", "shared"}) {
      const at::NoGradGuard guard;
      const Target& target = find_target("dropout");
      Network network =
          target.network({{"B", 2}, {"T", 3}, {"C", 4}, {"percent", int64_t(p * 100)}});
      EXPECT_FALSE(network.random);
      const Ensemble ensemble = generate(network, 3, at::kDouble, at::kCPU, 1);
      const Program single = record_one(network, ensemble.model(0));
      const Tensors got = wide_models(single, ensemble, {{"dropout", strategy}});
      EXPECT_EQ(relative_error(got, separate_models(network, single, ensemble)), 0.0);
    }
}

TEST(Claims, IndicesOutsideTheirTableAreRefused) {
  const Target& target = find_target("embedding");
  const Network network = target.network({{"B", 2}, {"T", 2}, {"V", 5}, {"D", 3}});
  for (const int64_t bad : {int64_t{5}, int64_t{-1}})
    for (const char* strategy : {"rows", "indexed", "gather"}) {
      const auto dtype = std::string(strategy) == "rows" ? at::kFloat : at::kDouble;
      Ensemble ensemble = generate(network, 3, dtype, at::kCPU, 1);
      const Program single = record_one(network, ensemble.model(0));
      ensemble.tensors[0].select(0, 1).fill_(bad);  // a neighbour's row, were it not refused
      EXPECT_ANY_THROW(wide_models(single, ensemble, {{"embedding", strategy}}));
    }
}

}  // namespace
}  // namespace wide::testing
