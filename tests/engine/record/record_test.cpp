#include "engine/record/record.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/error.h"

namespace wide::record_test {
namespace {

std::vector<std::string> names(const Program& program) {
  std::vector<std::string> out;
  for (const Node& node : program.nodes) out.push_back(node.name());
  return out;
}

double error(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

TEST(Record, ListsTheOperatorsThatReallyHappen) {
  at::NoGradGuard no_grad;
  const Tensor x = at::randn({3, 4}), w = at::randn({5, 4}), b = at::randn({5});
  const Program p = record(
      {{"x", Role::input, x}, {"fc.weight", Role::parameter, w}, {"fc.bias", Role::parameter, b}},
      [](const Tensors& t) { return Tensors{at::relu(at::linear(t[0], t[1], t[2]))}; });
  EXPECT_EQ(names(p), (std::vector<std::string>{"aten::t", "aten::addmm", "aten::relu"}));
  EXPECT_EQ(p.nodes[1].origin.module, "fc");
  ASSERT_EQ(p.regions.size(), 1U);
  EXPECT_EQ(p.regions[0].name(), "aten::linear");
  EXPECT_EQ(p.regions[0].begin, 0);
  EXPECT_EQ(p.regions[0].end, 2);
  EXPECT_FALSE(p.regions[0].mutates);
  const Tensor other = at::randn({3, 4});
  EXPECT_TRUE(interpret(p, {other, w, b})[0].equal(at::relu(at::linear(other, w, b))));
}

TEST(Record, IsFreeOfMutationAndLeavesBoundTensorsAlone) {
  at::NoGradGuard no_grad;
  auto model = [](const Tensors& t) {
    Tensor y = t[0] * 2;
    y.slice(1, 0, 2).fill_(0.5);  // in-place on a slice
    y.select(0, 0).relu_();
    t[1].mul_(0.9).add_(y.mean(), 0.1);  // a buffer's update
    return Tensors{y};
  };
  const Tensor x = at::randn({3, 4}), buffer = at::randn({});
  const Tensor x_before = x.clone(), buffer_before = buffer.clone();
  const Program p = record({{"x", Role::input, x}, {"mean", Role::buffer, buffer}}, model);
  EXPECT_TRUE(x.equal(x_before));
  EXPECT_TRUE(buffer.equal(buffer_before));
  for (const Node& node : p.nodes) EXPECT_FALSE(node.op.schema().is_mutable()) << node.name();
  ASSERT_EQ(p.updates.size(), 1U);
  EXPECT_EQ(p.value(p.updates[0].target).name, "mean");
  const Tensor other = at::randn({3, 4});
  const Tensors got = interpret(p, {other, buffer});
  const Tensor updated = buffer.clone();
  const Tensor expected = model({other, updated})[0];
  EXPECT_TRUE(got[0].equal(expected));
  EXPECT_LT(error(got[1], updated), 1e-6);
}

TEST(Record, MakesHiddenBatchNormUpdatesVisible) {
  at::NoGradGuard no_grad;
  const Tensor x = at::randn({4, 3, 5, 5}), mean = at::zeros({3}), var = at::ones({3});
  const Program p =
      record({{"x", Role::input, x}, {"mean", Role::buffer, mean}, {"var", Role::buffer, var}},
             [](const Tensors& t) {
               return Tensors{at::batch_norm(t[0], {}, {}, t[1], t[2], true, 0.1, 1e-5, false)};
             });
  EXPECT_EQ(p.updates.size(), 2U);
  EXPECT_TRUE(mean.equal(at::zeros({3})));
  const Tensors got = interpret(p, {x, mean, var});
  Tensor m = mean.clone(), v = var.clone();
  const Tensor y = at::batch_norm(x, {}, {}, m, v, true, 0.1, 1e-5, false);
  EXPECT_LT(error(got[0], y), 1e-6);
  EXPECT_LT(error(got[1], m), 1e-7);
  EXPECT_LT(error(got[2], v), 1e-7);
}

TEST(Record, InPlaceCallsWithoutMetaKernels) {
  at::NoGradGuard no_grad;
  const Tensor x = at::randn({4, 4});
  const auto run = [](const Tensors& t) {
    Tensor positive = t[0] > 0, y = t[0].clone();
    positive.logical_and_(t[0] < 1).logical_not_();
    positive.logical_xor_(t[0] > 0.5).logical_or_(t[0] < -1);
    y.fill_diagonal_(3);
    return Tensors{positive, y};
  };
  const Tensors got = interpret(record({{"x", Role::input, x}}, run), {x}), expected = run({x});
  EXPECT_TRUE(got[0].equal(expected[0]));
  EXPECT_TRUE(got[1].equal(expected[1]));
  // Meta tensors of others are refused as before.
  EXPECT_THROW(at::logical_and(x.to(at::kMeta), x.to(at::kMeta)), c10::NotImplementedError);
}

TEST(Record, RefusesNumbersThatDependOnData) {
  at::NoGradGuard no_grad;
  auto branch = [](const Tensors& t) {
    return Tensors{t[0].sum().item<double>() > 0 ? t[0] : -t[0]};
  };
  try {
    record({{"x", Role::input, at::ones({3})}}, branch);
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "[aten::_local_scalar_dense] data-dependent operator: got a Python number that "
                 "depends on an input or parameter, expected one known from the sizes alone; try "
                 "torch.where instead of a branch on tensor data");
    EXPECT_EQ(e.exit_code(), 2);
  }
}

TEST(Record, RefusesShapesThatDependOnData) {
  at::NoGradGuard no_grad;
  try {
    record({{"x", Role::input, at::ones({3})}},
           [](const Tensors& t) { return Tensors{at::nonzero(t[0])}; });
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "[aten::nonzero] data-dependent operator: got a result shape that depends on an "
                 "input or parameter, expected one known from the sizes alone; try a mask of fixed "
                 "size instead of selecting by data");
  }
}

TEST(Record, AcceptsNumbersOfConstants) {
  at::NoGradGuard no_grad;
  const Tensor constant = at::tensor({2.0});
  const Program p = record({{"x", Role::input, at::ones({3})}}, [&](const Tensors& t) {
    return Tensors{t[0] * constant.item<double>()};
  });
  EXPECT_TRUE(interpret(p, {at::ones({3})})[0].equal(at::full({3}, 2.0)));
}

TEST(Record, SeesViewsThatASchemaKeepsQuietAbout) {
  at::NoGradGuard no_grad;
  const Program p = record({{"x", Role::input, at::randn({2, 8})}}, [](const Tensors& t) {
    return Tensors{at::unsafe_split(t[0].relu(), 4, 1)[0] + 1};
  });
  bool seen = false;
  for (const Node& node : p.nodes)
    if (node.name() == "aten::unsafe_split.Tensor") seen = node.is_view();
  EXPECT_TRUE(seen);
}

TEST(Record, RaisesConstantsAndConversionsToDouble) {
  at::NoGradGuard no_grad;
  const Tensor table = at::randn({4});
  auto model = [&](const Tensors& t) {
    const Tensor steps = at::arange(4, at::TensorOptions().dtype(at::kFloat)) / 3;
    return Tensors{(t[0].to(at::kFloat) * table.to(t[0].scalar_type()) + steps).exp() * 0.1};
  };
  const Tensor x = at::randn({3, 4});
  const Program p = raise_to_double(record({{"x", Role::input, x}}, model));
  const Tensor got = interpret(p, {x.to(at::kDouble)})[0];
  ASSERT_EQ(got.scalar_type(), at::kDouble);
  const Tensor steps = at::arange(4, at::TensorOptions().dtype(at::kDouble)) / 3;
  const Tensor expected = (x.to(at::kDouble) * table.to(at::kDouble) + steps).exp() * 0.1;
  EXPECT_LT(error(got, expected), 1e-14);
}

TEST(Program, VerifierFindsWhatIsBroken) {
  at::NoGradGuard no_grad;
  const Program good = record({{"x", Role::input, at::randn({3})}},
                              [](const Tensors& t) { return Tensors{at::relu(at::exp(t[0]))}; });
  EXPECT_NO_THROW(good.verify());
  Program swapped = good;
  std::swap(swapped.nodes[0], swapped.nodes[1]);
  EXPECT_THROW(swapped.verify(), std::logic_error);
  Program twice = good;
  twice.nodes.push_back(twice.nodes[0]);
  EXPECT_THROW(twice.verify(), std::logic_error);
  Program unmade = good;
  unmade.nodes.pop_back();
  EXPECT_THROW(unmade.verify(), std::logic_error);
}

TEST(Program, EstimatesItsPeak) {
  at::NoGradGuard no_grad;
  // x 4 kB; exp makes 4 kB, its view costs nothing, relu makes 4 kB while exp's is still alive.
  const Program p = record({{"x", Role::input, at::randn({1000})}}, [](const Tensors& t) {
    return Tensors{at::relu(at::exp(t[0]).view({10, 100}))};
  });
  EXPECT_EQ(p.peak_bytes(), 12000);
}

}  // namespace
}  // namespace wide::record_test
