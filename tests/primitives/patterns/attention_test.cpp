// Attention written out in products is attention, however its scale, mask and heads are written;
// what only looks like it is left alone.
#include "tests/primitives/claims.h"

namespace wide::testing::attention_pattern_test {
namespace {

constexpr int64_t kModels = 3, kBatch = 2, kHeads = 2, kFrom = 5, kTo = 7, kDepth = 4;

Tensor heads(int64_t steps, int64_t width = kDepth) {
  return random({kModels, kBatch, kHeads, steps, width});
}

Tensor product(const Tensor& q, const Tensor& k) { return at::matmul(q, k.transpose(-2, -1)); }
Tensor shares(const Tensor& scores, const Tensor& v) {
  return at::matmul(at::softmax(scores, -1), v);
}
Tensor ones(const Tensor& scores) {
  return at::ones({scores.size(-2), scores.size(-1)}, scores.options().dtype(at::kBool));
}

const std::vector<Function>& scaled() {
  static const std::vector<Function> forms{
      [](const Tensors& in) -> Tensors { return {shares(product(in[0], in[1]) / 2.0, in[2])}; },
      [](const Tensors& in) -> Tensors { return {shares(0.3 * product(in[0], in[1]), in[2])}; },
      [](const Tensors& in) -> Tensors { return {shares(product(in[0], in[1]), in[2])}; },
      [](const Tensors& in) -> Tensors {
        return {shares(product(in[0] / 2.0, in[1] * 0.7), in[2])};
      }};
  return forms;
}

TEST(AttentionWrittenOut, ScaledAnywhereWithHeadsAndWithout) {
  const Tensors many{heads(kFrom), heads(kTo), heads(kTo, 3)};
  const Tensors one{random({kModels, kBatch, kFrom, kDepth}),
                    random({kModels, kBatch, kTo, kDepth}), random({kModels, kBatch, kTo, 3})};
  const Tensors same{heads(kFrom), heads(kFrom), heads(kFrom)};
  for (const Function& form : scaled())
    for (const Tensors& t : {many, one, same}) expect_claimed("attention", t, form);
}

TEST(AttentionWrittenOut, KeysTurnedInAnyWay) {
  const Tensors t{heads(kFrom), heads(kTo), heads(kTo)};
  expect_claimed("attention", t, [](const Tensors& in) -> Tensors {
    return {shares(at::matmul(in[0], in[1].permute({0, 1, 3, 2})), in[2])};
  });
  expect_claimed("attention", {t[0], heads(kDepth, kTo), t[2]}, [](const Tensors& in) -> Tensors {
    return {shares(at::matmul(in[0], in[1]), in[2])};
  });
  const Tensors one{random({kModels, kBatch, kFrom, kDepth}),
                    random({kModels, kBatch, kTo, kDepth}), random({kModels, kBatch, kTo, 3})};
  expect_claimed("attention", one, [](const Tensors& in) -> Tensors {
    const Tensor scores = at::einsum("bqd,bkd->bqk", {in[0], in[1]}) * 0.4;
    return {at::einsum("bqk,bke->bqe", {at::softmax(scores, -1), in[2]})};
  });
  expect_claimed("attention", t, [](const Tensors& in) -> Tensors {  // from a layer's [B, T, H, D]
    const Tensor q = in[0].transpose(1, 2).contiguous().transpose(1, 2);
    return {shares(product(q, in[1]) / 2.0, in[2]).transpose(1, 2).contiguous()};
  });
}

TEST(AttentionWrittenOut, MasksAddedFilledAndChosen) {
  const Tensors t{heads(kFrom), heads(kTo), heads(kTo)};
  const auto with = [&](const Tensor& mask, const Function& form) {
    Tensors all = t;
    all.push_back(mask);
    expect_claimed("attention", all, form);
  };
  for (const Sizes& sizes : {Sizes{kModels, kFrom, kTo}, Sizes{kModels, kBatch, 1, 1, kTo},
                             Sizes{kModels, 1, kHeads, kFrom, kTo}}) {
    with(random(sizes), [](const Tensors& in) -> Tensors {
      return {shares(product(in[0], in[1]) * 0.3 + in[3], in[2])};
    });
    with(random(sizes), [](const Tensors& in) -> Tensors {
      return {shares(in[3] + product(in[0], in[1]), in[2])};
    });
    Tensor drop = random(sizes).gt(0);
    drop.select(-1, 0).fill_(false);
    with(drop, [](const Tensors& in) -> Tensors {
      return {shares((product(in[0], in[1]) / 2.0).masked_fill(in[3], -INFINITY), in[2])};
    });
    with(drop, [](const Tensors& in) -> Tensors {  // filled before the scale
      return {shares(product(in[0], in[1]).masked_fill(in[3], -INFINITY) / 2.0, in[2])};
    });
    with(drop, [](const Tensors& in) -> Tensors {
      const Tensor least = at::full({}, -INFINITY, in[0].options());
      return {shares(at::where(in[3], least, product(in[0], in[1])), in[2])};
    });
  }
}

TEST(AttentionWrittenOut, RowsOfWhichNothingCountsKeepWhatTheyWereFilledWith) {
  const at::NoGradGuard guard;
  Tensor drop = random({kModels, kFrom, kTo}).gt(0);
  drop.select(1, 2).fill_(true);
  const Function form = [](const Tensors& in) -> Tensors {
    return {shares(product(in[0], in[1]).masked_fill(in[3], -1e9), in[2])};
  };
  expect_covered({heads(kFrom), heads(kTo), heads(kTo), drop}, form);
}

TEST(AttentionWrittenOut, CausalMasksOfOnes) {
  const Tensors t{heads(kFrom), heads(kFrom), heads(kFrom)};
  const auto filled = [&](const std::function<Tensor(const Tensor&)>& mask, double with) {
    expect_claimed("attention", t, [=](const Tensors& in) -> Tensors {
      const Tensor scores = product(in[0], in[1]) / 2.0;
      return {shares(scores.masked_fill(mask(scores), with), in[2])};
    });
  };
  for (const double with : {double{-INFINITY}, -1e9}) {
    filled([](const Tensor& s) { return ones(s).triu(1); }, with);
    filled([](const Tensor& s) { return ones(s).tril().logical_not(); }, with);
    filled([](const Tensor& s) { return at::bitwise_not(ones(s).tril()).unsqueeze(0); }, with);
    filled([](const Tensor& s) { return ones(s).to(s.dtype()).tril() == 0; }, with);
  }
  expect_claimed("attention", t, [](const Tensors& in) -> Tensors {
    const Tensor least = at::full({kFrom, kFrom}, -INFINITY, in[0].options()).triu(1);
    return {shares(product(in[0], in[1]) / 2.0 + least, in[2])};
  });
}

/// How the models' answers were computed, which are right to `tolerance`.
Coverage run(const Tensors& wide, const Function& form, double tolerance,
             const std::map<std::string, std::string>& strategies) {
  const at::NoGradGuard guard;
  Network network;
  for (size_t i = 0; i < wide.size(); ++i)
    network.tensors.push_back({fmt::format("t{}", i), Role::input, {}});
  network.forward = form;
  const Ensemble ensemble{kModels, wide, std::vector<bool>(wide.size(), false)};
  const Program single = record_one(network, ensemble.model(0));
  Coverage coverage;
  const Tensors got = wide_models(single, ensemble, strategies, &coverage);
  EXPECT_LT(relative_error(got, separate_models(network, single, ensemble)), tolerance);
  return coverage;
}

/// Right as ever, but nothing of it attention's.
void expect_left_alone(const Tensors& wide, const Function& form) {
  for (const CoverageItem& item : run(wide, form, 1e-10, {}).items)
    EXPECT_NE(item.primitive, "attention");
}

TEST(AttentionWrittenOut, TheKernelTakesEveryMaskInSinglePrecision) {
  const Tensor drop = random({kModels, kBatch, 1, kFrom, kTo}).gt(1);
  const std::vector<std::pair<Tensor, Function>> forms{
      {random({kModels, kFrom, kTo}),
       [](const Tensors& in) -> Tensors {
         return {shares(product(in[0], in[1]) / 2.0 + in[3], in[2])};
       }},
      {drop, [](const Tensors& in) -> Tensors {
         return {shares(product(in[0], in[1]).masked_fill(in[3], -INFINITY) / 2.0, in[2])};
       }}};
  for (const auto& [mask, form] : forms) {
    Tensors t{heads(kFrom), heads(kTo), heads(kTo)};
    for (Tensor& one : t) one = one.to(at::kFloat);
    t.push_back(mask.scalar_type() == at::kBool ? mask : mask.to(at::kFloat));
    bool packed = false;
    for (const CoverageItem& item : run(t, form, 1e-5, {{"attention", "packed"}}).items)
      packed |= item.primitive == "attention" && item.strategy == "packed";
    EXPECT_TRUE(packed);
  }
}

TEST(AttentionWrittenOut, WhatOnlyLooksLikeIt) {
  const Tensors t{heads(kFrom), heads(kFrom), heads(kFrom), random({kModels, kFrom, kFrom})};
  const std::vector<Function> forms{
      [](const Tensors& in) -> Tensors {  // over the rows
        return {at::matmul(at::softmax(product(in[0], in[1]), -2), in[2])};
      },
      [](const Tensors& in) -> Tensors {  // the shares are read outside as well
        const Tensor all = at::softmax(product(in[0], in[1]), -1);
        return {at::matmul(all, in[2]), all};
      },
      [](const Tensors& in) -> Tensors {  // what was added is scaled too
        return {shares((product(in[0], in[1]) + in[3]) * 0.5, in[2])};
      },
      [](const Tensors& in) -> Tensors {  // turned after the softmax
        const Tensor all = at::softmax(product(in[0], in[1]), -1);
        return {at::matmul(all.transpose(-2, -1), in[2])};
      },
      [](const Tensors& in) -> Tensors {  // scores are not a product alone
        return {shares(at::tanh(product(in[0], in[1])), in[2])};
      }};
  for (const Function& form : forms) expect_left_alone(t, form);
}

TEST(AttentionWrittenOut, TrianglesThatAreNotCausal) {
  const Tensors t{heads(kFrom), heads(kFrom), heads(kFrom)};
  for (const int64_t diagonal : {0, 2, -1})
    expect_covered(t, [=](const Tensors& in) -> Tensors {
      const Tensor scores = product(in[0], in[1]);
      return {shares(scores.masked_fill(ones(scores).triu(diagonal), -1e9), in[2])};
    });
  expect_covered(t, [](const Tensors& in) -> Tensors {
    const Tensor scores = product(in[0], in[1]);
    return {shares(scores.masked_fill(ones(scores).tril(-1), -INFINITY), in[2])};
  });
}

}  // namespace
}  // namespace wide::testing::attention_pattern_test
