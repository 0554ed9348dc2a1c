#include "engine/lower/plan/schedule.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/record/record.h"

namespace wide::schedule_test {
namespace {

std::vector<std::string> names(const Program& program) {
  std::vector<std::string> all;
  for (const Node& node : program.nodes) all.push_back(node.name().substr(6));
  return all;
}

using Names = std::vector<std::string>;

/// sigmoid and exp, which depends on it, are read by the last call alone; tan is an output through
/// a view, cos and sin are outputs, and sin is read too.
Program program(const Tensor& x) {
  return record({{"x", Role::input, x}}, [](const Tensors& t) -> Tensors {
    const Tensor e = at::exp(at::sigmoid(t[0]));
    const Tensor large = at::cos(at::cat({t[0], t[0]})), small = at::tan(t[0]).view({-1}),
                 read = at::sin(t[0]);
    return {large, small, read, at::mul(read, e)};
  });
}

TEST(Schedule, RunsNodesAgainJustBeforeTheirReader) {
  const Tensor x = at::randn({3, 5});
  Program p = program(x);
  ASSERT_EQ(names(p), (Names{"sigmoid", "exp", "cat", "cos", "tan", "view", "sin", "mul.Tensor"}));
  const Tensors before = interpret(p, {x});
  std::vector<bool> again(p.nodes.size(), false);
  again[0] = again[1] = again[2] = true;
  schedule(p, again, [](const Program&) { return 0; });
  EXPECT_EQ(names(p), (Names{"cat", "cos", "tan", "view", "sin", "sigmoid", "exp", "mul.Tensor"}));
  p.verify();
  const Tensors after = interpret(p, {x});
  for (size_t k = 0; k < before.size(); ++k) EXPECT_TRUE(at::equal(before[k], after[k])) << k;
}

TEST(Schedule, ComputesLargeResultsLastWhereThatNeedsLess) {
  const Tensor x = at::randn({3, 5});
  const Program first = program(x);
  std::vector<Names> tried;
  const auto best = [&](size_t which) {  // of the orders that are tried
    tried.clear();
    Program p = first;
    schedule(p, std::vector<bool>(p.nodes.size(), false), [&](const Program& ordered) {
      tried.push_back(names(ordered));
      return tried.size() == which + 1 ? 1 : 2;
    });
    return names(p);
  };
  const Names as_it_is = names(first);
  EXPECT_EQ(best(0), as_it_is);
  // cos has the largest result, then come mul and tan; sin is read, so it stays.
  const Names one{"sigmoid", "exp", "cat", "tan", "view", "sin", "mul.Tensor", "cos"};
  const Names all{"sigmoid", "exp", "cat", "sin", "cos", "tan", "view", "mul.Tensor"};
  EXPECT_EQ(best(1), one);
  EXPECT_EQ(best(3), all);
  ASSERT_EQ(tried.size(), 4u) << "none, one, two, all";
  EXPECT_EQ(best(9), as_it_is) << "no order is better";
}

}  // namespace
}  // namespace wide::schedule_test
