#include "engine/model/reduce.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "engine/widen/target.h"
#include "tests/data/python.h"

namespace wide::reduce_test {
namespace {

TEST(Reduce, VotesOfEqualCountGoToTheFirstClass) {
  // Of five models two vote for class 2, two for class 1, one for class 0; then all for the first.
  const Tensor scores =
      at::one_hot(at::tensor({2, 1, 2, 1, 0}, at::kLong), 3).to(at::kFloat).unsqueeze(1);
  const Tensor flat = at::zeros({5, 1, 3});
  const Tensor both = at::cat({scores, flat}, 1);
  EXPECT_TRUE(at::equal(reduce_models(Reduce::vote, {both})[0], at::tensor({1, 0}, at::kLong)));
}

TEST(Reduce, ProgramsEndInAtenOperators) {
  const Target& target = find_target("mlp");
  const Network network = target.network(Shape().set("B", 3).set("D", 5));
  const Ensemble ensemble = generate(network, 5, at::kFloat, c10::kCPU, 3);
  const Program single = record_single(network, ensemble);
  std::vector<WideValue> bound;
  for (size_t i = 0; i < ensemble.tensors.size(); ++i)
    bound.push_back({ensemble.tensors[i], !ensemble.shared[i]});
  WidenOptions options;
  options.force = {{"*", "vmap"}};
  const Program wide = widen(single, 5, bound, options).program;
  const Tensors outputs = interpret(wide, ensemble.tensors);
  for (const Reduce kind : {Reduce::mean, Reduce::std, Reduce::vote}) {
    Program with = wide;
    append_reduce(with, kind);
    with.verify();
    ASSERT_EQ(with.outputs.size(), wide.outputs.size());
    const Tensors got = interpret(with, ensemble.tensors);
    for (size_t k = 0; k < got.size(); ++k) {
      const Value& v = with.value(with.outputs[k]);
      EXPECT_EQ(got[k].sizes(), at::IntArrayRef(v.sizes));
      EXPECT_TRUE(at::equal(got[k], reduce_models(kind, outputs)[k])) << to_string(kind);
    }
    for (size_t i = wide.nodes.size(); i < with.nodes.size(); ++i)
      EXPECT_EQ(with.nodes[i].name().rfind("aten::", 0), 0u) << with.nodes[i].name();
    EXPECT_GT(with.nodes.size(), wide.nodes.size());
  }
}

TEST(Reduce, ErrorsAreSeen) {
  at::manual_seed(1);
  const Tensor reference = at::randn({7, 4, 3}, at::kDouble);
  for (const Reduce kind : {Reduce::mean, Reduce::std, Reduce::vote}) {
    const Tensor right = reduce_models(kind, {reference})[0];
    EXPECT_LE(reduced_error(kind, {right}, {reference}, 1e-5), 1e-12) << to_string(kind);
    const Tensor wrong = kind == Reduce::vote ? (right + 1) % 3 : right * 1.01;
    EXPECT_GT(reduced_error(kind, {wrong}, {reference}, 1e-5), 1e-4) << to_string(kind);
  }
  const Tensor mean = reduce_models(Reduce::mean, {reference})[0];
  EXPECT_FALSE(reduced_error(Reduce::mean, {mean * NAN}, {reference}, 1) <= 1);
}

TEST(Reduce, RefusesWhatHasNoMeaning) {
  const auto refused = [](Reduce kind, const Tensor& output, int64_t n) {
    const Program single = record({{"x", Role::input, output, false}},
                                  [](const Tensors& t) { return Tensors{t[0] + t[0]}; });
    return error_of([&] { check_reduce(kind, single, n); });
  };
  EXPECT_EQ(refused(Reduce::std, at::zeros({2}), 1),
            "[--reduce] std: got n=1, expected at least 2 models; try -n 2 or mean");
  EXPECT_EQ(refused(Reduce::mean, at::zeros({2}, at::kLong), 3),
            "[--reduce] output 0: got i64[2], expected a floating one; try without --reduce");
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{}, {4}, {4, 1}})
    EXPECT_EQ(refused(Reduce::vote, at::zeros(sizes), 3),
              fmt::format("[--reduce] output 0: got f32[{}], expected scores of at least 2 classes "
                          "along the last of several dimensions; try without --reduce",
                          fmt::join(sizes, ", ")));
  EXPECT_EQ(refused(Reduce::vote, at::zeros({2, 3}), 1), "");
  EXPECT_EQ(error_of([] { parse_reduce("median"); }),
            "[--reduce] name: got median, expected mean, std or vote; try mean");
}

}  // namespace
}  // namespace wide::reduce_test
